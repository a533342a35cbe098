"""Ends whose probe comes with their observation, and the word that their notes may go, on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.port import Engine, MemberPhase, Observation, ReleaseProbe
from steelyard.model.units import HOUR, MINUTE
from steelyard.services.audit import leaves
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House


class Prompt:
    """A simulated engine that says with an observation which attempts are over, as the local one does. It may
    lose the word that their notes can go."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.loses_forgets = False
        self.stuck = False  # what ended holds something
        self.forgotten: list[str] = []
        self.behind = 0  # µs by which the next probe was made earlier

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def observe(self, cursor: str | None) -> Observation:
        """See the port."""
        seen: Observation = self.inner.observe(cursor)
        names = {one.attempt_id for one in seen.members if one.phase is MemberPhase.ENDED}
        return replace(seen, gone=tuple(sorted(name for name in names if self._is_over(name))))

    def _is_over(self, name: str) -> bool:
        known = self.inner._state.attempts.get(name)
        return known is not None and known.ended and bool(self.inner.probe_release([name])[0].free)

    def probe_release(self, names: Any) -> tuple[ReleaseProbe, ...]:
        """See the port."""
        behind, self.behind = self.behind, 0
        found = [replace(one, at=one.at - behind) for one in self.inner.probe_release(names)]
        checks = (("processes", "remains"),)
        return tuple(replace(one, free=False, checks=checks) if self.stuck else one for one in found)

    def forget(self, names: Any) -> None:
        """See the port."""
        if not self.loses_forgets:
            self.forgotten += names
            self.inner.forget(names)


@pytest.fixture
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    """A house whose engines tell what is over, which holds nothing for longer than a parameter says. Closing
    it checks its books."""
    wrap: Any = Prompt
    text = DOCUMENTS.replace("release: 10ms", f"release: {getattr(request, 'param', '0ms')}", 1)
    made = House(sqlite_url(tmp_path), tmp_path, text, wrap=wrap)
    yield made
    made.close()


def engine(house: House) -> Prompt:
    found: Engine | Prompt = house.engines["sim"]
    assert isinstance(found, Prompt)
    return found


def known(house: House) -> set[str]:
    """Attempts that the cluster still has notes of."""
    return {one.attempt_id for one in engine(house).inner.observe(None).members}


def actions(house: House, workload: str) -> list[str]:
    """What was done to a workload, the last first."""
    return [leaf["action"] for leaf in leaves(house.store, ADMIN, f"object/workload/{workload}")["items"]]


def check_receipts(house: House, workload: str) -> None:
    """The end comes before the probe, and that before the receipt."""
    for attempt in house.show(workload)["attempts"]:
        found = attempt["receipt"]
        assert found["state"] == "confirmed"
        assert attempt["times"]["ended"] <= found["probed_at"] <= found["confirmed_at"]


def test_an_end_that_was_probed_with_its_observation_is_one_step(house: House) -> None:
    workload = house.submit("train")
    house.run_dry()
    assert "workload.end" not in actions(house, workload)
    check_receipts(house, workload)


def test_a_probe_of_before_the_end_is_asked_for_again(house: House) -> None:
    workload = house.submit("train")
    house.run_until(lambda: house.phase(workload) == "running")
    engine(house).behind = 1_000_000
    house.run_dry()
    assert actions(house, workload)[:2] == ["workload.finish", "workload.end"]
    check_receipts(house, workload)


@pytest.mark.parametrize("house", ["0ms", "300ms"], indirect=True)
def test_whatever_ends_early_is_stopped_or_fails_its_books_are_exact(house: House) -> None:
    pair: dict[str, Any] = {"count": 2, "requests": {"gpu": 1, "cpu": "1", "memory": "1Gi"}}
    found = [
        house.submit("gang", expect={"run": "1s"}, **pair),
        house.submit("gang-fails", restart="never", expect={"run": "1s", "exit": "1"}, **pair),
        house.submit("again", restart="on-failure", maxAttempts=2, expect={"run": "1s", "exit": "1"}),
        house.submit("limit", timeLimit="1s", expect={"run": "1h"}),
        house.submit("cancelled", expect={"run": "1h"}),
    ]
    house.run_until(lambda: house.phase(found[-1]) == "running")
    house.cancel(found[-1])
    house.run_dry()
    for workload in found:
        check_receipts(house, workload)
    assert [house.show(one)["outcome"] for one in found] == [
        "succeeded", "failed", "failed", "timed-out", "cancelled",
    ]  # fmt: skip


def test_a_probe_that_nobody_asked_for_does_not_end_what_is_still_to_be_read(house: House) -> None:
    digest = "sha256:" + "a" * 64
    asked = {"model": {"name": "m", "digest": digest}, "dataset": {"name": "d"}, "result": "r.json"}
    workload = house.submit("eval", kind="evaluation", evaluation=asked)
    house.run_until(lambda: house.phase(workload) == "releasing")
    assert house.loop.desk is not None
    releaser, attempt = house.loop.desk.releaser, house.show(workload)["attempts"][0]["id"]
    probe = ReleaseProbe(attempt, house.clock(), True, ())
    releaser.probed("sim", probe, asked=False)
    releaser.run()
    assert house.phase(workload) == "releasing"
    house.run_dry()
    check_receipts(house, workload)


def test_notes_whose_word_to_go_was_lost_are_told_of_again(house: House) -> None:
    engine(house).loses_forgets = True
    house.submit("one")
    house.submit("two")
    house.run_dry()
    assert len(known(house)) == 2
    house.submit("three", expect={"run": "1h"})
    house.tick(20)
    engine(house).loses_forgets = False
    house.loop.desk = None
    house.tick(20)
    assert len(engine(house).forgotten) == 2
    assert len(known(house)) == 1


def test_notes_of_what_is_in_quarantine_are_kept(house: House) -> None:
    sticky = engine(house)
    sticky.stuck = True
    workload = house.submit("train")
    house.run_until(lambda: house.phase(workload) == "releasing")
    house.clock.advance(3 * MINUTE)
    house.run_dry()
    (attempt,) = house.show(workload)["attempts"]
    assert attempt["receipt"]["state"] == "quarantined"
    house.loop.desk = None
    house.tick(5)
    assert known(house) == {attempt["id"]}
    sticky.stuck = False
    house.clock.advance(HOUR)
    house.tick(5)
    assert known(house) == set()
