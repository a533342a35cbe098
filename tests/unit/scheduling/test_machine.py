"""The core as a state machine: whatever happens, the books add up and nobody is forgotten."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import structs

from steelyard.model.policy import (
    FlavorFungibility,
    ModelOrder,
    NodeOrder,
    Policy,
    Precedence,
    PreemptionRule,
    QueueingStrategy,
    QueueOrder,
    QueueRules,
    Reclaim,
    ResourceGroup,
    Search,
)
from steelyard.scheduling import decide
from tests.support.core_checks import check_placements
from tests.support.core_world import SECOND, World

NUMBERS = st.integers(0, 999)
POLICIES = (
    Policy(1),
    Policy(2, max_placements=3),
    Policy(3, max_placements=16, preemption=PreemptionRule(min_runtime=3 * SECOND)),
    Policy(4, preemption=PreemptionRule(within_queue=False)),
    Policy(5, defaults=QueueRules(reservations=3, precedence=Precedence.SHORTEST_FIRST)),
    Policy(
        6,
        queues={
            "q1": QueueRules(groups=(ResourceGroup(("gpu", "cpu", "memory"), ("h100", "a100")),)),
            "q2": QueueRules(precedence=Precedence.LEAST_SERVED, reservations=2),
        },
    ),
)
#: Gangs get members again soon after some left.
RESTLESS = tuple(replace(policy, growth_window=2 * SECOND) for policy in POLICIES)
SCORED = (
    Policy(7, nodes=NodeOrder.NODE_VALUE, models=ModelOrder.ADVANTAGE),
    Policy(8, nodes=NodeOrder.BEST_FIT, defaults=QueueRules(reservations=0)),
)

#: Other orders, searches and bounds than those above.
UNLIKE = (
    Policy(
        11, order=QueueOrder.FAIR_SHARE, growth_window=SECOND,
        queues={"q1": QueueRules(weight=4000), "left": QueueRules(weight=500)},
    ),
    Policy(
        12, order=QueueOrder.STRICT_PRIORITY, defaults=QueueRules(strategy=QueueingStrategy.STRICT_FIFO)
    ),
    Policy(
        13, order=QueueOrder.FAIR_SHARE,
        defaults=QueueRules(
            starvation_bound=4 * SECOND, precedence=Precedence.SHORTEST_FIRST, reservations=2
        ),
    ),
    Policy(
        14, nodes=NodeOrder.NODE_VALUE, models=ModelOrder.ADVANTAGE, growth_window=SECOND,
        defaults=QueueRules(starvation_bound=2 * SECOND),
    ),
    Policy(
        15, defaults=QueueRules(fungibility=FlavorFungibility(Search.TRY_NEXT, Search.MAY_STOP)),
        preemption=PreemptionRule(
            reclaim=Reclaim.LOWER_PRIORITY, borrow_below=6, delay=2 * SECOND, per_hour=30
        ),
    ),
    Policy(
        16, order=QueueOrder.FAIR_SHARE, models=ModelOrder.ADVANTAGE, nodes=NodeOrder.BEST_FIT,
        max_evicted=1500, max_victims=3,
    ),
)  # fmt: skip


class Core(RuleBasedStateMachine):
    """Every rule is an event and one cycle after it."""

    world: World

    @initialize(seed=st.integers(0, 2**20), policy=st.sampled_from(POLICIES), heads=st.sampled_from((2, 512)))
    def begin(self, seed: int, policy: Policy, heads: int) -> None:
        self.world = World(policy, heads, seed)

    @rule(shape=NUMBERS, count=st.integers(1, 4))
    def submit(self, shape: int, count: int) -> None:
        self.world.submit(shape, count)
        self.world.cycle()

    @rule(which=NUMBERS, why=st.sampled_from(("finished", "failed")))
    def end(self, which: int, why: str) -> None:
        self.world.end(which, why)
        self.world.cycle()

    @rule(which=NUMBERS)
    def cancel(self, which: int) -> None:
        self.world.cancel(which)
        self.world.cycle()

    @rule(which=NUMBERS, nominal=st.integers(0, 6), borrowing=st.integers(0, 15), lending=st.integers(0, 15))
    def change_quota(self, which: int, nominal: int, borrowing: int, lending: int) -> None:
        self.world.change_quota(which, (nominal, borrowing, lending))
        self.world.cycle()

    @rule(what=st.sampled_from(("stop_queue", "lose", "spoil", "silence")), which=NUMBERS)
    def disturb(self, what: str, which: int) -> None:
        getattr(self.world, what)(which)
        self.world.cycle()

    @rule(seconds=st.integers(1, 400))
    def wait(self, seconds: int) -> None:
        self.world.advance(seconds * SECOND)
        self.world.cycle()

    @rule()
    def freeze(self) -> None:
        self.world.freeze()


TestCore = Core.TestCase
TestCore.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def run(
    seed: int, steps: int, policies: Sequence[Policy] = POLICIES, elastic: bool = False, comes: float = 0.45
) -> World:
    """A seeded run: mostly work that comes and goes, now and then a disturbance."""
    chance = random.Random(seed)
    world = World(chance.choice(policies), chance.choice((2, 512)), seed, elastic)
    for _ in range(steps):
        _step(world, chance, comes)
    return world


def _step(world: World, chance: random.Random, comes: float) -> None:
    number, draw = chance.randrange(1000), chance.random()
    if draw < comes and len(world.in_phase("queued")) < 40:
        world.submit(number, chance.randint(1, 3))
    elif draw < 0.78:
        world.end(number, chance.choice(("finished", "finished", "failed")))
    elif draw < 0.84:
        world.cancel(number)
    elif draw < 0.87:
        world.change_quota(number, (chance.randrange(8), chance.randrange(16), chance.randrange(16)))
    elif draw < 0.93:
        world.advance(chance.randrange(20 * SECOND))
    elif draw < 0.99:
        getattr(world, chance.choice(("lose", "spoil", "spoil", "stop_queue", "silence")))(number)
    else:
        world.freeze()
        return
    world.cycle()


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("seed", range(4))
def test_the_books_add_up_after_every_step_of_a_long_life(seed: int) -> None:
    world = run(seed, 250)
    assert world.counts["placed"] > 20


@pytest.mark.parametrize("policy", SCORED, ids=("NodeValue", "BestFit"))
def test_the_books_add_up_where_nodes_and_models_are_scored(policy: Policy) -> None:
    assert run(2, 120, (policy,)).counts["placed"] > 10


def test_the_books_add_up_where_a_model_has_a_price_and_speeds_are_learned() -> None:
    chance = random.Random(511)
    world = World(SCORED[0], 512, 511)
    world.teach()
    learned = 0
    for _ in range(120):
        _step(world, chance, 0.45)
        made = world.last.choices if world.last is not None else ()
        learned += sum(option.runs is not None for choice in made for option in choice.options)
    assert world.counts["placed"] > 10
    assert learned > 10


@pytest.mark.requirement("C10")
def test_the_books_add_up_where_gangs_give_up_members() -> None:
    assert sum(run(seed, 200, elastic=True).counts["shrunk"] for seed in (307, 308, 309)) > 5


@pytest.mark.requirement("C10")
def test_the_books_add_up_where_gangs_get_members_and_give_them_up() -> None:
    worlds = [run(seed, 250, RESTLESS, elastic=True, comes=0.2) for seed in (400, 407, 423)]
    assert sum(world.counts["grown"] for world in worlds) > 2
    assert sum(world.counts["regrown"] for world in worlds) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 220))
def test_the_books_add_up_where_gangs_give_up_members_for_long(seed: int) -> None:
    assert run(seed, 2_000, RESTLESS, elastic=True, comes=0.3).counts["placed"] > 100


@pytest.mark.parametrize("policy", UNLIKE, ids=lambda policy: str(policy.version))
def test_the_books_add_up_by_other_rules(policy: Policy) -> None:
    assert run(policy.version, 50, (policy,), elastic=True).counts["placed"] > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 306))
@pytest.mark.parametrize("policy", UNLIKE, ids=lambda policy: str(policy.version))
def test_the_books_add_up_by_other_rules_for_long(policy: Policy, seed: int) -> None:
    world = run(seed, 1_500, (policy,), elastic=seed % 2 == 0, comes=0.3)
    assert world.counts["placed"] > 40


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_the_books_add_up_after_thousands_of_steps(seed: int) -> None:
    world = run(seed, 5_000)
    assert world.counts["placed"] > 100


def test_the_checks_see_a_charge_too_much() -> None:
    world = World(POLICIES[0])
    for number in range(16):
        world.submit(number)
    world.advance(SECOND)
    before = world.snapshot()
    decisions = decide(before, world.policy, world.now)
    placed = decisions.placements[0]
    more = tuple(item.with_quantity(item.quantity + 1) for item in placed.charges)
    wrong = replace(decisions, placements=(structs.replace(placed, charges=more), *decisions.placements[1:]))
    check_placements(before, decisions)
    with pytest.raises(AssertionError, match="charged for something else"):
        check_placements(before, wrong)
