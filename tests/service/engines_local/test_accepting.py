"""What is accepted lasts, and what can't be made to last was not accepted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from steelyard.engines.local.door import RequestError
from steelyard.engines.local.runner import Runner
from tests.support.local_engine import INSTALL, make_local_engine, sh


def test_a_claim_that_does_not_last_is_not_accepted_and_may_be_told_again(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = make_local_engine(tmp_path)._attempt(sh("at_x", "true"))
    request = {"op": "start", "attempts": [claim]}

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", full)
        with pytest.raises(RequestError) as refused:
            runner.handle({"install": INSTALL}, request)
    assert refused.value.code == "runner-disk"
    assert (runner.book.members, list(runner.keeper.to_fork)) == ({}, [])
    assert os.listdir(runner.layout.claims) == []
    assert runner.handle({"install": INSTALL}, request) == ["accepted"]
    assert [record.id for record in runner.keeper.to_fork] == ["mb_x"]


def test_whoever_only_watches_a_folder_leaves_the_log_of_claims_to_its_runner(
    runner: Runner, tmp_path: Path
) -> None:
    engine = make_local_engine(tmp_path)
    runner.handle({"install": INSTALL}, {"op": "start", "attempts": [engine._attempt(sh("at_x", "true"))]})
    log = Path(runner.layout.claims + ".log")
    before = log.stat()
    assert [one["member_id"] for one in engine._watcher.observe()["members"]] == ["mb_x"]
    assert (log.stat().st_ino, log.stat().st_size) == (before.st_ino, before.st_size)
