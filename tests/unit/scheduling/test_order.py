"""Whose turn it is: total, the same whatever the order of what is given, and as a plain tournament has it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    QUEUE_TREE,
    Fairness,
    Policy,
    PriorityClass,
    QueueOrder,
    QueueRules,
    TreeNode,
)
from steelyard.model.units import HOUR, MINUTE, SECOND
from steelyard.model.workloads import Shape
from steelyard.scheduling import Charge, PendingItem, QuotaTree, Snapshot, total_usage
from steelyard.scheduling.ahead import line
from steelyard.scheduling.context import Context
from steelyard.scheduling.factors import FactorName, decides, factors
from steelyard.scheduling.history import UNIT, history_of
from steelyard.scheduling.order import Waiting
from steelyard.scheduling.turns import Key
from tests.unit.scheduling.build import NOW, group, item, node, nominal, queue_tree, request, shape, snapshot

#: root ─ left ─ a, b; root ─ right ─ c; root ─ d; a root of its own: e
PARENTS = {
    "root": None,
    "left": "root",
    "right": "root",
    "a": "left",
    "b": "left",
    "c": "right",
    "d": "root",
    "e": None,
}
QUEUES = ("a", "b", "c", "d", "e")
CLASSES = {
    "small": PriorityClass(50, 15 * SECOND, 200),
    "medium": PriorityClass(100, 4 * SECOND),
    "large": PriorityClass(200),
}


def tree(draw: st.DrawFn) -> QuotaTree:
    """With quotas here and there."""
    limits = {}
    for name in PARENTS:
        for subject in ("gpu", "flavor/a100"):
            if draw(st.booleans()):
                limits |= nominal(
                    name, subject, draw(st.integers(0, 4)) * 1000, None, draw(st.sampled_from([None, 1000]))
                )
    nodes = {
        name: TreeNode(QUEUE_TREE, name, "queue" if name in QUEUES else "cohort", parent)
        for name, parent in PARENTS.items()
    }
    return QuotaTree(nodes, limits)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Snapshot, Policy]:
    """Queues at several levels with use, history and what waits in them, and a policy of any kind."""
    number = iter(range(1, 1000))
    groups = []
    for index in range(draw(st.integers(2, 8))):
        name = draw(st.sampled_from([None, *CLASSES]))
        each = replace(
            shape(
                f"s{index}",
                request(gpu=draw(st.integers(1, 3)) * 1000),
                queue=draw(st.sampled_from(QUEUES)),
                project=draw(st.sampled_from("po")),
                priority=CLASSES[name].value if name else 100,
            ),
            priority_class=name,
            user=draw(st.sampled_from([None, "u", "v"])),
        )
        heads = [
            item(
                next(number),
                NOW - draw(st.integers(0, 6)) * 5 * SECOND,
                guaranteed=draw(st.integers(0, 5)) == 0,
                eligible_at=draw(st.sampled_from([0, NOW - 7 * SECOND])),
            )
            for _ in range(draw(st.integers(1, 3)))
        ]
        groups.append(group(each, *heads))
    queues = tree(draw)
    amount = st.integers(0, 4).map(lambda units: units * 1000)
    own = [(queue, subject, draw(amount)) for queue in QUEUES for subject in ("gpu", "flavor/a100")]
    past = {
        (queue, project, user, "gpu"): draw(amount) * UNIT
        for queue in QUEUES
        for project in "po"
        for user in "uv"
    }
    base = snapshot([node(1, gpus=8)], *groups, queues=queues)
    rules = {name: QueueRules(weight=draw(st.sampled_from([0, 500, 1000, 2000]))) for name in PARENTS}
    policy = Policy(
        1,
        classes=CLASSES,
        queues=rules,
        order=draw(st.sampled_from(list(QueueOrder))),
        fairness=draw(st.sampled_from([Fairness(), Fairness(HOUR, MINUTE)])),
        weights=draw(st.sampled_from([{}, {"project/p": 2000, "user/u": 0}])),
        defaults=QueueRules(starvation_bound=draw(st.sampled_from([HOUR, 20 * SECOND]))),
    )
    usage = {QUEUE_TREE: total_usage(queues, own)}
    return replace(base, usage=usage, history=history_of(queues, 0, past)), policy


def charges(of: Shape) -> tuple[Charge, ...]:
    """As if it were placed."""
    amount = of.totals()[next(iter(of.totals()))]
    return tuple(Charge(QUEUE_TREE, of.queue, subject, amount) for subject in ("gpu", "flavor/a100"))


def place(context: Context, waiting: Waiting | None, of: Shape) -> None:
    """Charges it without looking for a place."""
    context.ledger.add(charges(of))
    context.past.start((of.queue, of.project, of.user or ""), charges(of))
    if waiting is not None:
        waiting.charged([of.queue])


def popped(world: Snapshot, policy: Policy, choices: random.Random) -> list[int]:
    """Attempts in the order in which they come up; some of them are placed, others block their shape."""
    context = Context(world, policy, NOW)
    waiting = Waiting(context, world.pending, ())
    found = []
    while head := waiting.pop():
        of, item_ = head
        found.append(item_.attempt_id)
        if choices.random() < 0.7:
            place(context, waiting, of)
            waiting.again(of)
    assert waiting.empty
    return found


def plainly(world: Snapshot, policy: Policy, choices: random.Random) -> list[int]:
    """The same with everything compared anew each time."""
    context = Context(world, policy, NOW)
    turns = Waiting(context, (), ()).turns
    left = {
        each.shape.key: sorted(each.heads, key=lambda head, of=each.shape: turns.key(of, head))
        for each in world.pending
    }
    shapes = {each.shape.key: each.shape for each in world.pending}
    found = []

    def first(name: str | None) -> tuple[Shape, PendingItem] | None:
        below = [child for child, parent in PARENTS.items() if parent == name]
        if name in QUEUES:
            own: list[tuple[Key, str]] = [
                (turns.key(shapes[key], heads[0]), key)
                for key, heads in left.items()
                if heads and shapes[key].queue == name
            ]
            return (shapes[min(own)[1]], left[min(own)[1]][0]) if own else None
        candidates = [(child, winner) for child in below if (winner := first(child)) is not None]
        if not candidates:
            return None
        return min(candidates, key=lambda each: turns.rank(each[0], *each[1]))[1]

    while head := first(None):
        of, item_ = head
        found.append(item_.attempt_id)
        if choices.random() < 0.7:
            left[of.key].pop(0)
            place(context, None, of)
        else:
            left[of.key] = []
    return found


@settings(max_examples=150, deadline=None)
@given(worlds(), st.integers(0, 9))
def test_it_is_a_tournament_at_every_level_after_every_placement(
    world: tuple[Snapshot, Policy], seed: int
) -> None:
    assert popped(*world, random.Random(seed)) == plainly(*world, random.Random(seed))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.randoms(use_true_random=False), st.integers(0, 9))
def test_it_is_the_same_whatever_the_order_of_what_is_given(
    world: tuple[Snapshot, Policy], shuffle: random.Random, seed: int
) -> None:
    given_, policy = world
    groups = []
    for each in given_.pending:
        heads = list(each.heads)
        shuffle.shuffle(heads)
        groups.append(replace(each, heads=tuple(heads)))
    shuffle.shuffle(groups)
    trees = given_.trees[QUEUE_TREE]
    shuffled = replace(
        given_,
        pending=tuple(groups),
        trees={
            QUEUE_TREE: QuotaTree(dict(reversed(trees.nodes.items())), dict(reversed(trees.limits.items())))
        },
        usage={QUEUE_TREE: dict(reversed(given_.usage[QUEUE_TREE].items()))},
    )
    assert popped(shuffled, policy, random.Random(seed)) == popped(given_, policy, random.Random(seed))


@settings(max_examples=150, deadline=None)
@given(worlds(), st.data())
def test_the_factors_say_who_of_two_is_first(world: tuple[Snapshot, Policy], data: st.DataObject) -> None:
    given_, policy = world
    waits = [(each.shape, head) for each in given_.pending for head in each.heads]
    a, b = data.draw(st.sampled_from(waits)), data.draw(st.sampled_from(waits))
    decisive = decides(factors(given_, policy, NOW, a, b))
    back = decides(factors(given_, policy, NOW, b, a))
    if a == b:
        assert decisive is None
        return
    assert decisive is not None
    assert back is not None
    assert (decisive.name, decisive.first, decisive.a, decisive.b) == (back.name, -back.first, back.b, back.a)
    two = replace(
        given_, pending=(group(*a), group(*b)) if a[0].key != b[0].key else (group(a[0], a[1], b[1]),)
    )
    first = Waiting(Context(two, policy, NOW), two.pending, ()).pop()
    assert first is not None
    assert first == (a if decisive.first < 0 else b)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(QUEUES), st.integers(1, 5))
def test_the_line_of_a_queue_is_its_order_with_what_puts_each_before_the_next(
    world: tuple[Snapshot, Policy], queue: str, most: int
) -> None:
    given_, policy = world
    alone = replace(given_, pending=tuple(each for each in given_.pending if each.shape.queue == queue))
    waiting = Waiting(Context(alone, policy, NOW), alone.pending, ())
    order = []
    while head := waiting.pop():
        order.append(head)
        waiting.again(head[0])
    told = line(given_, policy, NOW, queue, most)
    assert [(each.shape, each.item) for each in told] == order[:most]
    for each, after in zip(told, order[1:], strict=False):
        assert each.factor == decides(factors(given_, policy, NOW, (each.shape, each.item), after))
        assert each.factor is not None
        assert each.factor.first < 0
    if len(order) == len(told) > 0:
        assert told[-1].factor is None


def first_of(policy: Policy, *waits: tuple[Shape, PendingItem], now: int = NOW, **fields: object) -> int:
    """The attempt whose turn it is first."""
    queues = fields.pop("queues", queue_tree({}, ("q", "r")))
    world = snapshot([node(1, gpus=8)], *(group(*each) for each in waits), queues=queues, **fields)
    head = Waiting(Context(world, policy, now), world.pending, ()).pop()
    assert head is not None
    return head[1].attempt_id


def aged(name: str) -> Shape:
    """A shape of a class."""
    return replace(shape(name, request(gpu=1000), priority=CLASSES[name].value), priority_class=name)


@pytest.mark.parametrize(("waited", "first"), [(14, 2), (16, 1)])
def test_what_ages_goes_before_whatever_is_newer_after_its_time(waited: int, first: int) -> None:
    policy = Policy(1, classes=CLASSES)
    small, large = (aged("small"), item(1, NOW - waited * SECOND)), (aged("large"), item(2, NOW))
    assert first_of(policy, small, large) == first
    assert first_of(policy, small, large, now=NOW + HOUR) == first  # however long both wait from here


def test_a_strict_class_is_never_passed_by_a_lower_one() -> None:
    policy = Policy(
        1,
        classes={name: replace(each, ageing=0) for name, each in CLASSES.items()},
        defaults=QueueRules(starvation_bound=HOUR),
    )
    assert first_of(policy, (aged("small"), item(1, 0)), (aged("large"), item(2, NOW))) == 2


def test_who_used_less_of_the_queue_goes_first_project_then_user() -> None:
    policy = Policy(1, fairness=Fairness(HOUR, MINUTE))
    queues = queue_tree()
    history = history_of(
        queues,
        0,
        {
            ("q", "p", "u", "gpu"): 3000 * UNIT,
            ("q", "p", "v", "gpu"): 1000 * UNIT,
            ("q", "o", "w", "gpu"): 3500 * UNIT,
        },
    )
    heavy, light, other = (
        (replace(shape(name, request(gpu=1000), project=project), user=user), item(number, NOW - number))
        for number, (name, project, user) in enumerate([("h", "p", "u"), ("l", "p", "v"), ("o", "o", "w")], 1)
    )
    assert first_of(policy, heavy, light, queues=queues, history=history) == 2
    assert first_of(policy, light, heavy, other, queues=queues, history=history) == 3
    weighted = replace(policy, weights={"project/p": 2000})
    assert first_of(weighted, light, heavy, other, queues=queues, history=history) == 2


def test_what_started_since_the_last_sum_counts_at_once() -> None:
    policy = Policy(1, fairness=Fairness(HOUR, MINUTE))
    queues = queue_tree()
    history = history_of(queues, 0, {}, {("q", "p", "", "gpu"): 8000})
    older, newer = (
        (shape("a", request(gpu=1000)), item(1, 0)),
        (shape("b", request(gpu=1000), project="o"), item(2, 1)),
    )
    assert first_of(policy, older, newer, queues=queues) == 1
    assert first_of(policy, older, newer, queues=queues, history=history) == 2


def test_within_nominal_quota_goes_before_a_higher_priority_that_borrows() -> None:
    queues = queue_tree(nominal("q", "gpu", 0) | nominal("r", "gpu", 8000), ("q", "r"))
    borrows = shape("b", request(gpu=1000), queue="q", priority=9), item(1)
    within = shape("w", request(gpu=1000), queue="r", priority=1), item(2)
    assert first_of(Policy(1), borrows, within, queues=queues) == 2
    assert first_of(Policy(1, order=QueueOrder.FAIR_SHARE), borrows, within, queues=queues) == 2
    assert first_of(Policy(1, order=QueueOrder.STRICT_PRIORITY), borrows, within, queues=queues) == 1


def test_the_factors_have_the_numbers_of_each_level() -> None:
    nodes = {
        name: TreeNode(QUEUE_TREE, name, "cohort" if name in ("root", "left", "right") else "queue", parent)
        for name, parent in PARENTS.items()
    }
    queues = QuotaTree(nodes, nominal("root", "gpu", 16_000))
    world = snapshot(
        [node(1, gpus=8)], queues=queues, usage={QUEUE_TREE: total_usage(queues, [("a", "gpu", 4000)])}
    )
    policy = Policy(1, order=QueueOrder.FAIR_SHARE)
    a = shape("x", request(gpu=1000), queue="a"), item(1)
    c = shape("y", request(gpu=2000), queue="c"), item(2)
    found = factors(world, policy, NOW, a, c)
    assert [factor.name for factor in found] == [FactorName.GUARANTEED, FactorName.SHARE]
    assert (found[-1].a, found[-1].b, found[-1].first) == (312_500, 125_000, 1)
    assert found[-1].nodes == ("left", "right")
