"""Policy as the rest of the house takes it: quota trees with limits, routes, priorities, its version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from steelyard.model.errors import RefusedError
from steelyard.model.organisation import Scope
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, USER_TREE, Limit, Policy, Route, TreeNode
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.workloads import WorkloadKind
from steelyard.scheduling.barriers import WAKE_TREE
from steelyard.scheduling.quota import QuotaTree, with_unbounded_root
from steelyard.services.cached import Cached
from steelyard.services.derived import ORG_VERSION, POLICY_VERSION, edge_of, limits_of
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import CohortSpec, QueueSpec, RoutingSpec
from steelyard.services.scheduling_rules import POLICY_KINDS, make_policy
from steelyard.services.user_quota import submitters, user_tree
from steelyard.store.database import View
from steelyard.store.declared import counters, current, edges, open_limits

#: The root that owns everything there is, above all teams.
ORG_ROOT = "installation"
_ABOVE = {"project": "team", "namespace": "project"}
Nodes: TypeAlias = Mapping[str, TreeNode]
Limits: TypeAlias = Mapping[tuple[str, str], Limit]


@dataclass(frozen=True, slots=True)
class Routes:
    """The routing and what it names: queues (stopped ones, too) and priority classes with their values."""

    routes: tuple[Route, ...] = ()
    queues: frozenset[str] = frozenset()
    priorities: Mapping[str, int] | None = None

    def matching(self, project: str, kind: WorkloadKind, environment: str | None) -> tuple[Route, ...]:
        """The routes that apply, in order; the first decides, the others may be asked for."""
        return tuple(
            route
            for route in self.routes
            if route.project in (None, project)
            and route.kind in (None, kind)
            and route.environment in (None, environment)
        )


class Routed(NamedTuple):
    """Where a workload goes and under which rules. `preemptible` None: as the workload itself says."""

    queue: str
    priority_class: str
    priority: int
    preemptible: bool | None = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    policy: Policy
    trees: dict[str, tuple[dict[str, TreeNode], dict[tuple[str, str], Limit]]]
    quota_trees: dict[str, QuotaTree]
    routes: Routes


def _load(view: View) -> _Loaded:
    documents = [
        stored_document(row.kind, row.name, row.labels, row.spec)
        for row in current(view, Scope.system())
        if row.kind in POLICY_KINDS
    ]
    policy = make_policy(documents, counters(view).get(POLICY_VERSION, 0))
    found = (_queue_node(document.name, document.spec) for document in documents)
    nodes = {node.name: node for node in found if node is not None}
    trees = {QUEUE_TREE: (nodes, _limits(view, QUEUE_TREE)), ORG_TREE: (_org(view), _limits(view, ORG_TREE))}
    built = {
        QUEUE_TREE: QuotaTree(*trees[QUEUE_TREE]),
        ORG_TREE: with_unbounded_root(ORG_TREE, *trees[ORG_TREE], ORG_ROOT),
        **_users(_limits(view, USER_TREE), documents),
    }
    return _Loaded(policy, trees, built, routes_of(documents, policy))


def routes_of(documents: Iterable[Document], policy: Policy) -> Routes:
    """The routing that follows from the declared objects of some instant."""
    routing = next((d.spec for d in documents if isinstance(d.spec, RoutingSpec)), RoutingSpec(()))
    queues = frozenset(document.name for document in documents if isinstance(document.spec, QueueSpec))
    return Routes(
        tuple(
            Route(r.queue, r.priority_class, r.project, r.kind, r.environment, r.preemptible)
            for r in routing.routes
        ),
        queues,
        policy.priorities,
    )


def _users(limits: Limits, documents: Iterable[Document]) -> dict[str, QuotaTree]:
    found = user_tree(limits, submitters(documents))
    return {} if found is None else {USER_TREE: found}


def _limits(view: View, tree: str) -> dict[tuple[str, str], Limit]:
    return {
        (row.limit.node, row.limit.subject): row.limit for row in open_limits(view) if row.limit.tree == tree
    }


def _org(view: View) -> dict[str, TreeNode]:
    """Team, project and namespace nodes, `KIND/NAME`, each below the one it belongs to."""
    found = (_org_node(edge.kind, edge.child, edge.parent) for edge in edges(view, only_open=True))
    return {node.name: node for node in found}


def _org_node(kind: str, child: str, parent: str | None) -> TreeNode:
    above = f"{_ABOVE[kind]}/{parent}" if parent is not None else None
    return TreeNode(ORG_TREE, f"{kind}/{child}", kind, above)


def _queue_node(name: str, spec: object) -> TreeNode | None:
    if isinstance(spec, QueueSpec):
        return TreeNode(QUEUE_TREE, name, "queue", spec.cohort, spec.stopped)
    if isinstance(spec, CohortSpec):
        return TreeNode(QUEUE_TREE, name, "cohort", spec.parent)
    return None


class Since:
    """When limits became what they are: as the newest that was the same, else `otherwise` (µs)."""

    def __init__(self, known: Iterable[Limit], otherwise: int) -> None:
        """`known` in the order in which they came into force."""
        self._known: dict[tuple[str, str, str], list[Limit]] = {}
        self._otherwise = otherwise
        for limit in known:
            self._known.setdefault((limit.tree, limit.node, limit.subject), []).append(limit)

    def of(self, limit: Limit) -> Limit:
        """The limit with its instant."""
        known = self._known.get((limit.tree, limit.node, limit.subject), ())
        same = [each for each in known if each == limit]
        return replace(limit, since=same[-1].since if same else self._otherwise)


_UNKNOWN_SINCE = Since((), 0)


def trees_of(documents: Iterable[Document], since: Since = _UNKNOWN_SINCE) -> dict[str, QuotaTree]:
    """The quota trees that follow from the declared objects of some instant."""
    documents = list(documents)
    nodes: dict[str, dict[str, TreeNode]] = {QUEUE_TREE: {}, ORG_TREE: {}}
    limits: dict[str, dict[tuple[str, str], Limit]] = {QUEUE_TREE: {}, ORG_TREE: {}, USER_TREE: {}}
    for document in documents:
        node = _queue_node(document.name, document.spec)
        edge = edge_of(document)
        if node is not None:
            nodes[QUEUE_TREE][node.name] = node
        elif edge is not None:
            found = _org_node(edge.kind, edge.child, edge.parent)
            nodes[ORG_TREE][found.name] = found
        for limit in limits_of(document):
            limits[limit.tree][limit.node, limit.subject] = since.of(limit)
    return {
        QUEUE_TREE: QuotaTree(nodes[QUEUE_TREE], limits[QUEUE_TREE]),
        ORG_TREE: with_unbounded_root(ORG_TREE, nodes[ORG_TREE], limits[ORG_TREE], ORG_ROOT),
        **_users(limits[USER_TREE], documents),
    }


def policy_of(documents: Iterable[Document], version: int) -> Policy:
    """What `decide` followed under these declared objects."""
    return make_policy(documents, version)


_cache = Cached(_load, POLICY_VERSION, ORG_VERSION)


def load_trees(view: View) -> Mapping[str, tuple[Nodes, Limits]]:
    """tree → (nodes by name, limits by (node, subject)). Tops of the organisation have no parent here."""
    return _cache.get(view).trees


def quota_trees(view: View) -> Mapping[str, QuotaTree]:
    """tree → the tree itself; the organisation's hangs below the unbounded root `ORG_ROOT`."""
    return _cache.get(view).quota_trees


def load_policy(view: View) -> Policy:
    """What `decide` follows, with its version."""
    return _cache.get(view).policy


def routes(view: View) -> Routes:
    """The routing in force."""
    return _cache.get(view).routes


def route(
    routing: Routes,
    project: str,
    kind: WorkloadKind,
    environment: str | None,
    asked_queue: str | None = None,
    asked_class: str | None = None,
) -> Routed:
    """Where a workload goes.

    The first route that matches decides. A queue may be asked for when some matching route leads to it. A
    priority class may be asked for when a matching route to the queue names it, or when it is not above
    the one that the route gives. Raises RefusedError `refused` with the reason no-route or no-queue.
    """
    matching = routing.matching(project, kind, environment)
    if not matching:
        raise _refused(ReasonCode.NO_ROUTE, project, kind=kind.value, environment=environment)
    if asked_queue is not None:
        matching = tuple(found for found in matching if found.queue == asked_queue)
    if not matching or matching[0].queue not in routing.queues:
        queue = asked_queue if asked_queue is not None else matching[0].queue
        raise _refused(ReasonCode.NO_QUEUE, queue, "queue", queue=queue)
    first = matching[0]
    same_queue = {found.priority_class for found in matching if found.queue == first.queue}
    named, value = _priority(routing, first, same_queue, project, asked_class)
    return Routed(first.queue, named, value, first.preemptible)


def _priority(
    routing: Routes, first: Route, open_classes: set[str], project: str, asked: str | None
) -> tuple[str, int]:
    known = routing.priorities or {}
    given = known.get(first.priority_class, 0)
    if asked is None:
        return first.priority_class, given
    if asked not in known or (asked not in open_classes and known[asked] > given):
        raise _refused(ReasonCode.NO_ROUTE, project, queue=first.queue, priority_class=asked)
    return asked, known[asked]


def _refused(code: ReasonCode, owner: str, scope: str = "project", **params: str | None) -> RefusedError:
    given = {key: value for key, value in params.items() if value is not None}
    reason = Reason(
        code.value,
        "submit",
        scope=scope,
        owner=owner,
        wakes_on=(WAKE_TREE,),
        params=dict(given),
    )
    return RefusedError("refused", [reason])
