"""S-10: whatever is submitted, ends, is cancelled, moved or crashes: what is charged is what is live."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from steelyard.model.lifecycle import HOLDING_PHASES
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, USER_TREE
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.services.users import create_user
from steelyard.store.database import sqlite_url
from steelyard.store.declared import usage_counters
from tests.service.control.test_replay import house
from tests.support.house import ADMIN, House
from tests.support.storms import Storm

LIMITS = """
kind: Binding
metadata: {{name: admin}}
spec: {{user: admin, role: administrator}}
---
kind: ConversionTable
metadata: {{name: default}}
spec: {{models: {{A100: "{worth}"}}, memory: {{A100: 80Gi}}}}
---
kind: Quota
metadata: {{name: detect}}
spec:
  project: detect
  limits:
    - {{class: gpu, measure: normalised, hard: 6}}
    - {{class: gpu, measure: fraction, hard: 2}}
---
kind: Quota
metadata: {{name: each}}
spec: {{user: "*", project: detect, limits: [{{class: gpu, hard: {each}}}]}}
"""
WORTHS = {"0.5": 500, "1": 1000, "1.5": 1500}


class Life(Storm):
    """A storm in which limits of users and the table of worth move, too."""

    def __init__(self, house: House, seed: int) -> None:
        super().__init__(house, seed, self.check)
        self.worth = "1"
        self.steps.append(self.table)
        self.table()

    def table(self) -> None:
        """The table and a user's limit move."""
        worth = self.dice.choice(sorted(WORTHS))
        self.house.apply(LIMITS.format(worth=worth, each=self.dice.choice([2, 4, 8])))
        self.worth = worth

    def check(self) -> None:
        """The counters in the store against a sum over what has places, with no code of the product's."""
        desk = self.house.loop.desk
        if desk is None:
            return
        state = desk.context.state
        wanted: Counter[tuple[str, str, str]] = Counter()
        for attempt in state.attempts.values():
            if attempt.phase in HOLDING_PHASES:
                self.add(wanted, attempt.shape, attempt.plans())
        for hold in state.holds.values():
            self.add(wanted, hold.shape, hold.members)
        with self.house.store.read() as view:
            found = usage_counters(view)
        trees = {name: tree.nodes for name, tree in state.trees.items()}
        counted = {key: used for key, used in found.items() if used}
        assert counted == {key: n for key, n in wanted.items() if n and key[1] in trees.get(key[0], {})}

    def add(
        self, wanted: Counter[tuple[str, str, str]], shape: Shape, members: tuple[MemberPlan, ...]
    ) -> None:
        """Every node of every tree above it: nobody keeps anything back here, so all flows up."""
        desk = self.house.loop.desk
        assert desk is not None
        parents = {
            (name, node.name): node.parent
            for name, tree in desk.context.state.trees.items()
            for node in tree.nodes.values()
        }
        leaves = [(QUEUE_TREE, shape.queue), (ORG_TREE, shape.org_path[0])]
        users = [f"user/{shape.user}@{shape.project}", f"user/{shape.user}@*", f"user/{shape.user}"]
        leaves += [(USER_TREE, node) for node in users if (USER_TREE, node) in parents][:1]
        for tree, leaf in leaves:
            node: str | None = leaf
            while node is not None and (tree, node) in parents:
                for member in members:
                    for item in member.allocations:
                        wanted[tree, node, item.device_class.value] += item.quantity
                        wanted[tree, node, f"flavor/{item.flavor}"] += item.quantity
                        if item.device_class == "gpu" and tree == ORG_TREE:
                            wanted[tree, node, "gpu/normalised"] += item.quantity * WORTHS[self.worth]
                            part = item.quantity if item.quantity < 1000 else 0
                            wanted[tree, node, "gpu/fraction"] += part
                node = parents[tree, node]


def live_through(folder: Path, seed: int, steps: int) -> None:
    with house(sqlite_url(folder), folder) as lived:
        create_user(lived.store, ADMIN, "admin")
        life = Life(lived, seed)
        life.run(steps)
        with lived.store.read() as view:
            assert not any(usage_counters(view).values())


@pytest.mark.requirement("J1", "J10")
@pytest.mark.parametrize("seed", [1, 2])
def test_after_every_step_what_is_charged_is_what_is_live(tmp_path: Path, seed: int) -> None:
    live_through(tmp_path, seed, 35)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_ten_thousand_steps_leak_nothing(tmp_path: Path, seed: int) -> None:
    live_through(tmp_path, 1000 + seed, 250)
