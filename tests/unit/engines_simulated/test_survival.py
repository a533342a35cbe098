"""A simulated cluster outlives its server: the state file, two servers on it, and another document."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from steelyard.engines.port import EngineUnavailable, MemberPhase, StartState
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.errors import InvalidError
from steelyard.model.units import SECOND
from tests.support.simulated import EPOCH, STARTED, Bench, VirtualClock, document


def test_a_cluster_goes_on_by_the_clock_while_no_server_is_there(tmp_path: Path) -> None:
    bench = Bench(path=tmp_path / "state.jsonl")
    short, long = bench.start({"run": "5s", "exit": "4"}), bench.start({"run": "60s"}, node="sim-1")
    bench.engine.close()
    bench.later(20 * SECOND)
    bench.engine = bench.another()
    assert (bench.see(short).exit_code, bench.see(short).ended_at) == (4, EPOCH + STARTED + 5 * SECOND)
    assert bench.see(long).phase is MemberPhase.RUNNING


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_engine_that_was_closed_says_that_it_can_not_be_reached(tmp_path: Path, on_disk: bool) -> None:
    bench = Bench(path=tmp_path / "state.jsonl" if on_disk else None)
    bench.engine.close()
    with pytest.raises(EngineUnavailable):
        bench.engine.observe(None)
    bench.engine.close()


def test_what_could_not_be_written_did_not_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(path=tmp_path / "state.jsonl")
    attempt = bench.attempt({"run": "forever"})

    def full(file: int, data: bytes) -> None:
        os.write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("steelyard.engines.simulated.journal._write", full)
        with pytest.raises(EngineUnavailable, match="simulation-state-not-written"):
            bench.engine.start([attempt])
    assert bench.engine.observe(None).members == ()
    assert bench.engine.start([attempt])[0].state is StartState.ACCEPTED


def test_two_servers_may_use_one_cluster_and_see_the_same(tmp_path: Path) -> None:
    bench = Bench(path=tmp_path / "state.jsonl")
    other = bench.another()
    attempt = bench.start({"run": "60s"})
    assert [m.attempt_id for m in other.observe(None).members] == [attempt.attempt_id]
    (reply,) = other.start([attempt])
    assert reply.state is StartState.ALREADY
    other.stop([attempt.attempt_id], SECOND)
    bench.later(SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED
    assert bench.engine.observe(None).members == other.observe(None).members


def test_a_line_that_a_dying_server_left_half_written_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    bench = Bench(path=path)
    attempt = bench.start({"run": "60s"})
    bench.engine.close()
    with path.open("ab") as file:
        file.write(b'{"type":"stop","at":1,"att')
    bench.engine = bench.another()
    bench.later(SECOND)
    assert bench.see(attempt).phase is MemberPhase.RUNNING
    bench.engine.stop([attempt.attempt_id], SECOND)
    bench.engine.close()
    bench.later(SECOND)
    bench.engine = bench.another()
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_a_state_file_with_a_broken_line_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Bench(path=path).engine.close()
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(InvalidError) as caught:
        SimulatedEngine("sim", parse_simulation(document()), VirtualClock(), path)
    assert (caught.value.code, caught.value.params["line"]) == ("simulation-state-invalid", 3)


def test_the_state_file_of_another_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Bench(path=path).engine.close()
    with pytest.raises(InvalidError, match="other-cluster"):
        SimulatedEngine("second", parse_simulation(document()), VirtualClock(), path)


def test_a_shorter_state_file_leads_to_the_same_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.engines.simulated.engine._SHORTEN_AT", 20_000)
    path = tmp_path / "state.jsonl"
    bench = Bench(
        {"fault": "start-failure", "match": {"name": "bad"}, "count": 3},
        {"fault": "stuck-release", "match": {"name": "stuck"}},
        path=path,
    )
    stuck = bench.start({"run": "1s"}, name="stuck", node="sim-1")
    bench.later(5 * SECOND)
    bench.engine.forget([stuck.attempt_id])
    attempts = [stuck]
    for index in range(300):
        attempt = bench.start({"run": "1s"}, name="bad" if index < 2 else "good")
        attempts.append(attempt)
        bench.later(2 * SECOND)
        bench.engine.forget([attempt.attempt_id])
    live = bench.start({"run": "forever"})
    sizes = path.stat().st_size
    before, present = bench.engine.observe(None), bench.engine.present()
    bench.engine.close()
    bench.engine = bench.another()
    after = bench.engine.observe(None)
    assert (after.members, bench.engine.present()) == (before.members, present)
    assert [p.attempt_id for p in present] == [stuck.attempt_id, live.attempt_id]
    assert bench.engine.probe_release([stuck.attempt_id])[0].free is False
    assert {reply.state for reply in bench.engine.start(attempts)} == {StartState.ALREADY}
    assert b"exited with 0" in bench.engine.logs(attempts[-1].members[0].member_id, 0, 9999).data
    assert sizes < 400 * 300
    failed = [bench.start(name="bad"), bench.start(name="bad")]
    bench.later(5 * SECOND)
    assert [bench.see(attempt).failure for attempt in failed] == ["start-failed", None]


def test_a_server_whose_file_was_replaced_by_another_reads_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.engines.simulated.engine._SHORTEN_AT", 2_000)
    bench = Bench(path=tmp_path / "state.jsonl")
    other = bench.another()
    cursor = other.observe(None).cursor
    for _ in range(30):
        attempt = bench.start({"run": "1s"})
        bench.later(2 * SECOND)
        bench.engine.forget([attempt.attempt_id])
    live = bench.start({"run": "forever"})
    seen = other.observe(cursor)
    assert seen.complete
    assert [member.attempt_id for member in seen.members] == [live.attempt_id]


def test_another_document_changes_nodes_and_what_ran_on_a_removed_one_is_gone() -> None:
    bench = Bench()
    stays, goes = bench.start({"run": "forever"}), bench.start({"run": "forever"}, node="sim-1")
    bench.later(SECOND)
    bench.document = {**bench.document, "nodes": [{**bench.document["nodes"][0], "count": 1}]}
    bench.engine.declare(parse_simulation(bench.document))
    assert [node.name for node in bench.engine.inventory()] == ["sim-0"]
    assert bench.see(stays).phase is MemberPhase.RUNNING
    assert (bench.see(goes).phase, bench.see(goes).failure) == (MemberPhase.ENDED, "node-lost")
