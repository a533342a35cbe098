"""The quota trees over time and what was charged to them: CK9 replays it with the scheduler's arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from steelyard.evidence.timelines import Epoch, Key
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, UNBOUNDED, Limit, OnExceed, TreeNode
from steelyard.scheduling import HoldView
from steelyard.scheduling.quota import QuotaTree, charge, with_unbounded_root
from steelyard.services.derived import COUNTERS, POLICY_VERSION
from steelyard.services.documents import stored_document
from steelyard.services.kinds import CohortSpec, Kind, QueueSpec
from steelyard.services.policy import ORG_ROOT
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
        """See `QuotaRules`. What is charged to a node that is not there is charged to nobody."""
        return charge(self.tree, usage, node, subject, quantity) if node in self.tree.nodes else ()

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
    """Both trees from the first declared object on, anew at each change of policy."""
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
        for name, tree in ((QUEUE_TREE, queue_tree), (ORG_TREE, org_tree)):
            found.append(Epoch(name, at, end, TreeRules(tree), version))
    return found


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
        labels, spec = msgspec.json.decode(row["labels_json"]), msgspec.json.decode(row["spec_json"])
        declared = stored_document(row["kind"], row["name"], labels, spec).spec
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


def charges_of_allocations(
    allocations: Iterable[Record], namespaces: Mapping[int, str]
) -> Iterator[Record]:
    """What each allocation is charged, to its queue and to its namespace; `namespaces` by attempt."""
    for row in allocations:
        leaf = f"namespace/{namespaces.get(row['attempt_id'], '')}"
        for tree, node in ((QUEUE_TREE, row["queue"]), (ORG_TREE, leaf)):
            for subject in (row["device_class"], f"flavor/{row['flavor']}"):
                yield {
                    "tree": tree, "node": node, "subject": subject, "quantity": row["quantity"],
                    "t0": row["t0"], "t1": row["t1"], "version": row["policy_version"],
                }  # fmt: skip


def charges_of_holds(view: View) -> list[Record]:
    """What is charged for places that are kept while victims stop."""
    return [
        {"tree": item.tree, "node": item.node, "subject": item.subject, "quantity": item.quantity}
        for row in holds(view)
        for item in _hold(row.plan_json).charges
    ]
