"""Bundles of a running gang: what may be stopped of it by itself, what only all together, and what joins it.

A member that an elastic gang has beyond its fewest is a *safe bundle*: the gang goes on without it. The rest
is one bundle that goes last, and with it everything (after Volcano's gang-aware eviction and KAI's minimum
of members). Members leave from the highest index down, so that those who stay are numbered without a gap.

A member that leaves is, until its release is proven, a run of its own under its own id: it stops, is charged
for what it has, and holds wait for it as for any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.decisions import Eviction, Growth, Leaving
from steelyard.scheduling.subjects import Counting, held_by
from steelyard.scheduling.views import Charge, RunningView

#: Ids of members that are only imagined: above all real ones, and those of imagined attempts.
_IMAGINED, _MARKS, _MEMBERS = 3 << 61, 47, 14


def imagined_ids(shape: Shape, attempt_id: int, members: Sequence[MemberPlan]) -> tuple[int, ...]:
    """Ids of the members that an attempt placed in imagination could lose, 0 for those that it runs on; empty
    where it could lose none. The same for the same attempt, and in the order of the members."""
    least = {name: fewest for (name, _, _), fewest in zip(shape.roles, shape.least, strict=False)}
    if all(member.index < least.get(member.role, member.index + 1) for member in members):
        return ()
    first = _first_id(attempt_id)
    return tuple(
        first + at if member.index >= least.get(member.role, member.index + 1) else 0
        for at, member in enumerate(members)
    )


def joining_ids(growth: Growth, there: int) -> tuple[int, ...]:
    """Ids of members that join an attempt of so many in imagination."""
    first = _first_id(growth.attempt_id) + there
    return tuple(range(first, first + len(growth.members)))


def _first_id(attempt_id: int) -> int:
    mark = int.from_bytes(sha256(str(attempt_id).encode()).digest()[:6]) % (1 << _MARKS)
    return _IMAGINED + (mark << _MEMBERS)


def surplus_of(view: RunningView, counting: Counting) -> list[Leaving]:
    """The members that it could lose, of each role the highest index first."""
    nodes = tuple(dict.fromkeys((item.tree, item.node) for item in view.charges))
    found = [
        Leaving(number, member.role, member.index, counting.charges(nodes, held_by(member.allocations)))
        for number, member in zip(view.ids, view.members, strict=bool(view.ids))
        if number
    ]
    return sorted(found, key=lambda one: (one.role, -one.index))


def leaving_view(view: RunningView, gone: Leaving) -> RunningView:
    """A member as a run of its own that stops."""
    member = view.members[view.ids.index(gone.member_id)]
    return replace(
        view, attempt_id=gone.member_id, members=(member,), charges=gone.charges, ids=(), least=(),
        stopping=True, grows=None, shrunk_at=None,
    )  # fmt: skip


def staying_view(view: RunningView, gone: Iterable[Leaving]) -> RunningView:
    """The gang without these members."""
    left = list(gone)
    numbers = {one.member_id for one in left}
    kept = [at for at, number in enumerate(view.ids) if number not in numbers]
    ids = tuple(view.ids[at] for at in kept)
    return replace(
        view, members=tuple(view.members[at] for at in kept), ids=ids if any(ids) else (), grows=None,
        charges=_rest(view.charges, [item for one in left for item in one.charges]),
    )  # fmt: skip


def _rest(charges: Sequence[Charge], less: Iterable[Charge]) -> tuple[Charge, ...]:
    taken: dict[tuple[str, str, str], int] = {}
    for item in less:
        key = (item.tree, item.node, item.subject)
        taken[key] = taken.get(key, 0) + item.quantity
    left = (
        item.with_quantity(item.quantity - taken.get((item.tree, item.node, item.subject), 0))
        for item in charges
    )
    return tuple(item for item in left if item.quantity)


def split(view: RunningView, leaving: Collection[int], counting: Counting) -> list[RunningView]:
    """A run of which these members (by id) leave already, and each of them as a run of its own."""
    if not leaving:
        return [view]
    gone = [one for one in surplus_of(view, counting) if one.member_id in leaving]
    return [staying_view(view, gone), *(leaving_view(view, one) for one in gone)]


def stopped_by(view: RunningView, eviction: Eviction) -> list[RunningView]:
    """What an eviction stops of a run: all of it, or the members that it names."""
    if not eviction.members:
        return [view]
    return [leaving_view(view, gone) for gone in eviction.members]


def may_grow(shape: Shape, members: Collection[MemberPlan]) -> bool:
    """Whether the gang has a role that takes new members and has fewer than it asked for."""
    there = Counter(member.role for member in members)
    return any(name in shape.grows and there[name] < count for name, count, _ in shape.roles)


def grown_view(view: RunningView, growth: Growth, ids: tuple[int, ...]) -> RunningView:
    """The gang with its new members, of which these are the ids. Whether it may get more is said anew once
    they run."""
    return replace(
        view, members=(*view.members, *growth.members), charges=joined_charges(view, growth),
        ids=(*(view.ids or (0,) * len(view.members)), *ids), grows=None,
    )  # fmt: skip


def joined_charges(view: RunningView, growth: Growth) -> tuple[Charge, ...]:
    """What all members are charged together."""
    more = {(item.tree, item.node, item.subject): item.quantity for item in growth.charges}
    known = [
        item.with_quantity(item.quantity + more.pop((item.tree, item.node, item.subject), 0))
        for item in view.charges
    ]
    return (*known, *(Charge(*key, quantity) for key, quantity in more.items()))
