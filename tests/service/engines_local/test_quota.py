"""A member's work folder has a limit, and the disk a floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.engines.local import disk
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import MemberPhase
from steelyard.model.resources import Availability
from tests.support.local_engine import end_everything, make_local_engine, notes, sh, wait_ended, wait_for

FILL = "dd if=/dev/zero of=big bs=1M count={} 2>/dev/null; echo written; sleep 600"


def test_a_member_over_its_limit_is_stopped_by_policy_with_numbers(engine: LocalEngine) -> None:
    engine.start([sh("at_1", FILL.format(8), work_limit=4)])
    seen = wait_ended(engine, "mb_1", 30)
    assert (seen.failure_stage, seen.failure) == ("policy", "work-folder-quota")
    assert (seen.failure_text or "").endswith("MiB, limit 4 MiB")
    assert int((seen.failure_text or "0").split()[0]) > 4


def test_a_member_within_its_limit_is_left_alone_whatever_the_clusters_default(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path, work_limit=1)
    try:
        within = FILL.format(8).replace("sleep 600", "sleep 3")
        engine.start([sh("at_1", within, work_limit=100), sh("at_2", FILL.format(8))])
        assert wait_ended(engine, "mb_1", 30).exit_code == 0
        assert wait_ended(engine, "mb_2", 30).failure == "work-folder-quota"
    finally:
        end_everything(engine)


def test_the_number_of_processes_is_bounded_where_there_is_a_group_for_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh("at_1", "sleep 600", cpu=1500)])
    seen = wait_for(engine, "mb_1", lambda one: one.phase is MemberPhase.RUNNING)
    groups = [Path(group) for group in notes(tmp_path, "mb_1", "run.json")["groups"]]
    found = [(group / "pids.max").read_text().strip() for group in groups if (group / "pids.max").exists()]
    assert (seen.limits == "rlimit") == (groups == [])
    if not found:
        pytest.skip("no control group here bounds processes")
    assert found == [str(4096 + 2 * 1024)]


def test_too_little_space_takes_the_machine_out_until_there_is_an_eighth_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [2000]
    monkeypatch.setattr(disk, "free_space", lambda _folder: free[0])
    engine = make_local_engine(tmp_path, min_free=800)
    seen = []
    for free[0] in (2000, 801, 799, 850, 899, 900, 850, 700):
        (node,) = engine.inventory()
        assert (node.availability is Availability.AVAILABLE) == (node.reason is None)
        seen.append(node.reason)
    full = "disk-full"
    assert seen == [None, None, full, full, full, None, None, full]
    engine.close()
