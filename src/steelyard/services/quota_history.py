"""The quota trees over time and what was charged to them: CK9 replays it with the scheduler's arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace

import msgspec

from steelyard.evidence.timelines import Epoch, Key
from steelyard.model.policy import (
    FLAVOR_PREFIX,
    ORG_TREE,
    QUEUE_TREE,
    UNBOUNDED,
    USER_TREE,
    Limit,
    OnExceed,
    TreeNode,
)
from steelyard.model.resources import DeviceClass
from steelyard.scheduling import HoldView
from steelyard.scheduling.quota import QuotaTree, charge, with_unbounded_root
from steelyard.scheduling.subjects import Counting, held_by, own_node, user_path
from steelyard.services.derived import COUNTERS, POLICY_VERSION
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import CohortSpec, Kind, QueueSpec
from steelyard.services.live import LiveState
from steelyard.services.live_load import load_devices_into
from steelyard.services.policy import ORG_ROOT, load_policy, quota_trees
from steelyard.services.scheduling_rules import make_policy
from steelyard.services.shapes import read_shape as _shape
from steelyard.services.user_quota import submitters, user_tree
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.declared import edges
from steelyard.store.live import holds
from steelyard.store.scoped import Record

_POLICY_KINDS = tuple(kind.value for kind, moved in COUNTERS.items() if POLICY_VERSION in moved)
_ABOVE = {"project": "team", "namespace": "project"}
_hold = msgspec.json.Decoder(HoldView).decode


class TreeRules:
    """`evidence.timelines.QuotaRules` of one tree."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree

    def ceiling(self, node: str, subject: str) -> int | None:
        """See `QuotaRules`."""
        if node not in self.tree.nodes or not self.tree.governs(subject):
            return None
        return self.tree.terms(node, subject)[0].ceiling

    def charge(
        self, usage: Mapping[Key, int], node: str, subject: str, quantity: int
    ) -> Iterable[tuple[str, str, int]]:
        """See `QuotaRules`. What is charged to a node that is not there is charged to nobody; of a user that
        has no limit in the project, to the node for all."""
        user = node.partition("@")[0]
        own = own_node(self.tree, (node, f"{user}@*", user))
        return () if own is None else charge(self.tree, usage, own, subject, quantity)

    def exchange(
        self, usage: Mapping[Key, int], subject: str, cohorts: Iterable[str]
    ) -> Iterable[tuple[str, int, int]]:
        """See `QuotaRules`. What children may lend and the cohort's own, less what nobody took, is lent."""
        for cohort in cohorts:
            children = self.tree.children(cohort) if cohort in self.tree.nodes else ()
            if not children or not self.tree.governs(subject):
                continue
            whole = self.tree.subtree(cohort, subject)
            limit = self.tree.limits.get((cohort, subject))
            if whole >= UNBOUNDED // 2:
                continue  # nothing can be borrowed where everything is there
            lent = (limit.nominal if limit else 0) - (whole - usage.get((cohort, subject), 0))
            borrowed = 0
            for child in children:
                used, own = usage.get((child, subject), 0), self.tree.subtree(child, subject)
                local = self.tree.local(child, subject)
                borrowed += max(0, used - own)
                lent += max(0, own - local - max(0, used - local))
            yield cohort, borrowed, lent


def quota_epochs(view: View, until: int) -> list[Epoch]:
    """All trees from the first declared object on, anew at each change of policy."""
    rows = repository.declared_versions(view, _POLICY_KINDS)
    limits, org = repository.limit_rows(view), edges(view)
    instants = {at for row in rows for at in (row["valid_from"], row["valid_to"]) if at is not None}
    marks = sorted(at for at in instants if at < until)
    found: list[Epoch] = []
    for version, at in enumerate(marks, 1):
        end = marks[version] if version < len(marks) else until
        nodes = {
            f"{edge.kind}/{edge.child}": _org_node(edge.kind, edge.child, edge.parent)
            for edge in org
            if edge.valid_from <= at and (edge.valid_to is None or at < edge.valid_to)
        }
        queue_tree = QuotaTree(_queue_nodes(rows, at), _limits_at(limits, QUEUE_TREE, at))
        org_tree = with_unbounded_root(ORG_TREE, nodes, _limits_at(limits, ORG_TREE, at), ORG_ROOT)
        people = user_tree(_limits_at(limits, USER_TREE, at), submitters(_bindings(rows, at)))
        trees = {QUEUE_TREE: queue_tree, ORG_TREE: org_tree, USER_TREE: people}
        found += (
            Epoch(name, at, end, TreeRules(tree), version) for name, tree in trees.items() if tree is not None
        )
    return found


def _bindings(rows: list[Record], at: int) -> Iterator[Document]:
    return (_document(row) for row in rows if row["kind"] == Kind.BINDING and _valid(row, at))


def _document(row: Record) -> Document:
    labels, spec = msgspec.json.decode(row["labels_json"]), msgspec.json.decode(row["spec_json"])
    return stored_document(row["kind"], row["name"], labels, spec)


def _valid(row: Record, at: int) -> bool:
    return bool(row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"]))


def _org_node(kind: str, child: str, parent: str | None) -> TreeNode:
    above = f"{_ABOVE[kind]}/{parent}" if parent is not None else None
    return TreeNode(ORG_TREE, f"{kind}/{child}", kind, above)


def _queue_nodes(rows: list[Record], at: int) -> dict[str, TreeNode]:
    nodes: dict[str, TreeNode] = {}
    for row in rows:
        if row["kind"] not in (Kind.QUEUE, Kind.COHORT) or not _valid(row, at):
            continue
        declared = _document(row).spec
        if isinstance(declared, QueueSpec):
            nodes[row["name"]] = TreeNode(QUEUE_TREE, row["name"], "queue", declared.cohort)
        elif isinstance(declared, CohortSpec):
            nodes[row["name"]] = TreeNode(QUEUE_TREE, row["name"], "cohort", declared.parent)
    return nodes


def _limits_at(rows: list[Record], tree: str, at: int) -> dict[tuple[str, str], Limit]:
    return {
        (row["node"], row["subject"]): Limit(
            tree, row["node"], row["subject"], row["nominal"], row["borrowing_limit"], row["lending_limit"],
            OnExceed(row["on_exceed"]),
        )
        for row in rows
        if row["tree"] == tree and _valid(row, at)
    }  # fmt: skip


def charges_of_allocations(view: View, allocations: Iterable[Record]) -> Iterator[Record]:
    """What each allocation is charged in every tree: to its queue, its namespace and its user."""
    places, measures = repository.places_of_attempts(view), _Measures(view)
    users = {number: _shape(body) for number, body in repository.shape_bodies(view).items()}
    for row in allocations:
        namespace, shape = places.get(row["attempt_id"], ("", 0))
        nodes = [(QUEUE_TREE, row["queue"]), (ORG_TREE, f"namespace/{namespace}")]
        path = user_path(users[shape].user, users[shape].project) if shape in users else ()
        nodes += [(USER_TREE, path[0])] if path else []
        for tree, node in nodes:
            for subject in (row["device_class"], f"{FLAVOR_PREFIX}{row['flavor']}"):
                yield {
                    "tree": tree, "node": node, "subject": subject, "quantity": row["quantity"],
                    "t0": row["t0"], "t1": row["t1"], "version": row["policy_version"],
                }  # fmt: skip
            yield from measures.of(row, tree, node)


class _Measures:
    """What is charged beside classes and flavors, where there are limits on it now: by the table of each
    time."""

    def __init__(self, view: View) -> None:
        self._pieces: list[tuple[int, int | None, Counting]] = []
        counting = counting_now(view)
        if counting.is_plain:
            return
        flavors = counting.flavors
        tables = [row for row in repository.declared_versions(view, (Kind.CONVERSION_TABLE,))]
        marks = sorted({0} | {at for row in tables for at in (row["valid_from"], row["valid_to"]) if at})
        for index, at in enumerate(marks):
            end = marks[index + 1] if index + 1 < len(marks) else None
            policy = make_policy((_document(row) for row in tables if _valid(row, at)), 0)
            self._pieces.append((at, end, Counting(counting.trees, flavors, policy)))

    def of(self, row: Record, tree: str, node: str) -> Iterator[Record]:
        """Rows like those of `charges_of_allocations`, cut where a table took another's place."""
        for t0, t1, counting in self._pieces:
            ends = [at for at in (t1, row["t1"]) if at is not None]
            span = (max(t0, row["t0"]), min(ends, default=None))
            if span[1] is not None and span[0] >= span[1]:
                continue
            held = held_by([SimpleNamespace(**{**row, "device_class": DeviceClass(row["device_class"])})])
            for subject, quantity in counting.beside(tree, held.flavors, held.parts):
                yield {
                    "tree": tree, "node": node, "subject": subject, "quantity": quantity,
                    "t0": span[0], "t1": span[1], "version": row["policy_version"],
                }  # fmt: skip


def counting_now(view: View) -> Counting:
    """How what is held is counted by what is declared now."""
    trees, policy = quota_trees(view), load_policy(view)
    plain = Counting(trees, {}, policy)
    if plain.is_plain:
        return plain
    state = LiveState()
    load_devices_into(state, view)
    return Counting(trees, state.flavors(), policy)


def charges_of_holds(view: View) -> list[Record]:
    """What is charged for places that are kept while victims stop."""
    counting = counting_now(view)
    kept = [_hold(row.plan_json) for row in holds(view)]
    return [
        {"tree": item.tree, "node": item.node, "subject": item.subject, "quantity": item.quantity}
        for hold in kept
        for item in counting.charges_at(hold.shape, hold.members)
    ]
