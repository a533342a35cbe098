"""S-04: what-if says what the real decision then is, and leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.model.errors import SteelyardError
from steelyard.model.lifecycle import Phase
from steelyard.services import what_if
from steelyard.services.flags import Act, act
from steelyard.store.database import sqlite_url
from tests.support.frozen import FrozenHouse
from tests.support.house import ADMIN
from tests.support.storms import LIMITS, RESTLESS, SHAPES, Storm

#: What a fate looks like once it was decided.
PHASES = {
    "starts": {Phase.STARTING},
    "held": {Phase.RESERVED},
    "waits": {Phase.QUEUED},
    "evicted": {Phase.STOPPING},
    "runs": {Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.RELEASING},
    "shrinks": {Phase.STARTING, Phase.RUNNING},
    "grows": {Phase.RUNNING},
    "absent": {None},
}
KINDS = ["submit", "submit", "submit", "limit", "documents", "cordon", "uncordon", "end"]
Question = tuple[dict[str, Any], Callable[[], str | None]]


class Asker:
    """Asks about a change and then makes it, in a house that stands still."""

    def __init__(self, house: FrozenHouse, seed: int) -> None:
        self.house = house
        self.dice = random.Random(seed)
        self.storm = Storm(house, seed)
        self.stopped = "false"  # whether the queue is
        if seed % 2:
            house.apply(RESTLESS)

    def live(self) -> None:
        """Some steps of life; then everything stands still."""
        self.house.thaw()
        for _ in range(self.dice.randrange(2, 8)):
            with suppress(SteelyardError):
                self.dice.choice([self.storm.submit, self.storm.submit_high, self.storm.submit_many])()
            for _ in range(self.dice.randrange(1, 3)):
                self.storm.tick()
        self.house.freeze()

    def question(self) -> Question:
        """What is asked about, and how it is done; that gives the id of what was submitted."""
        kind = self.dice.choice(KINDS)
        if kind == "end" and (found := self.waiting()) is not None:
            return {"end": found}, lambda: self.house.cancel(found)
        if kind == "limit":
            gpu = self.dice.choice([2, 4, 6, 8])
            ask = {"limit": {"node": "queue/main", "subject": "gpu", "value": gpu}}
            return ask, lambda: self.house.apply(LIMITS.format(gpu=gpu, stopped=self.stopped))
        if kind == "documents":
            self.stopped = self.dice.choice(["true", "false", "false"])
            text = LIMITS.format(gpu=self.dice.choice([1, 8]), stopped=self.stopped)
            return {"documents": _documents(text)}, lambda: self.house.apply(text)
        if kind in ("cordon", "uncordon"):
            node = self.dice.choice(["n-0", "n-1", "m-0"])
            return {kind: node}, lambda: _flag(self.house, node, kind)
        return self.submit()

    def submit(self) -> Question:
        """One workload of some shape."""
        spec = dict(self.dice.choice(SHAPES))
        more = {"priorityClass": "high"} if self.dice.random() < 0.4 else {}
        role = {"name": "main", "command": ["train"], "count": spec.pop("count", 1), **spec}
        role["expect"] = {"run": "5s"}
        document = {
            "kind": "Workload",
            "metadata": {"name": "asked", "namespace": "detect-dev"},
            "spec": {"kind": "training", **more, "roles": [role]},
        }
        told = {key: value for key, value in role.items() if key not in ("name", "command")}
        return {"submit": document}, lambda: self.house.submit("asked", **told, **more)

    def waiting(self) -> str | None:
        """Somebody who waits."""
        found = sorted(name for name, phase in self.house.phases().items() if phase is Phase.QUEUED)
        return self.dice.choice(found) if found else None

    def case(self) -> int:
        """One question, its answer, the change itself, and what then happened; how many fates it changed."""
        house = self.house
        ask, do = self.question()
        rows, phases = house.rows(), house.phases()
        told = what_if.ask(house.desk, ADMIN, [ask])
        assert house.rows() == rows
        try:
            submitted = do()
        except SteelyardError:
            assert [row["would"] for row in told["submitted"]] == ["refuse"], (ask, told)
            return 0
        house.decide()
        then = house.phases()
        changed = {row["id"]: row for row in told["changed"]}
        for name, row in changed.items():
            assert then.get(name) in PHASES[row["after"]], (ask, row, then.get(name))
        for name, phase in phases.items():
            if name not in changed:
                assert then.get(name) is phase, (ask, name, phase, then.get(name), told)
        if submitted is not None:
            would = {"start": Phase.STARTING, "hold": Phase.RESERVED, "wait": Phase.QUEUED}
            assert then[submitted] is would[told["submitted"][0]["would"]], (ask, told)
            self._same_place(submitted, told["submitted"][0]["placement"])
        return len(changed) + len(told["submitted"])

    def _same_place(self, submitted: str, placement: list[dict[str, Any]] | None) -> None:
        members = self.house.show(submitted)["attempts"][-1]["members"]
        if placement is not None:
            got = {m["index"]: (m["node"], {d["device"] for d in m["devices"]}) for m in members}
            told = {m["index"]: (m["node"], {d["device"] for d in m["devices"]}) for m in placement}
            assert got == told


def _documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def _flag(house: FrozenHouse, node: str, what: str) -> None:
    with suppress(SteelyardError):  # it is so already
        act(house.store, ADMIN, Act(what), node, "a question")


def _ask_and_do(folder: Path, seed: int, lives: int) -> int:
    house = FrozenHouse(sqlite_url(folder), folder)
    try:
        asker, decided = Asker(house, seed), 0
        for _ in range(lives):
            asker.live()
            decided += asker.case()
        house.thaw()
        return decided
    finally:
        house.close()


@pytest.mark.parametrize("seed", range(2))
def test_what_was_told_is_what_the_house_then_does_and_asking_wrote_nothing(
    tmp_path: Path, seed: int
) -> None:
    assert _ask_and_do(tmp_path, seed, 9) > 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_what_was_told_is_what_the_house_then_does_many_times(tmp_path: Path, seed: int) -> None:
    assert _ask_and_do(tmp_path, seed, 25) > 3
