"""The two quota trees as people see them: what a node owns, uses, may still be charged, could ever be."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.policy import (
    FLAVOR_PREFIX,
    ORG_TREE,
    QUEUE_TREE,
    UNBOUNDED,
    USER_TREE,
    USUAL_WEIGHT,
    Policy,
)
from steelyard.scheduling.quota import QuotaTree, Usage, available, potential, shown
from steelyard.scheduling.rules import rules_of
from steelyard.scheduling.subjects import own_node, user_path
from steelyard.services.evictions import made_by_queue
from steelyard.services.fair_use import NOTHING, fair_use
from steelyard.services.kinds import Kind
from steelyard.services.policy import load_policy, quota_trees
from steelyard.services.shapes import read_shape
from steelyard.services.user_quota import place_of
from steelyard.store.declared import current
from steelyard.store.declared_scope import visible_keys
from steelyard.store.live import usage_counters
from steelyard.store.shape_counts import live_by_shape
from steelyard.store.store import Store
from steelyard.store.workloads import count_live, shape_bodies

Json = dict[str, Any]
Counts = Mapping[str, Mapping[str, int]]  # node → phase → live workloads
_ORGANISATION = ("team", "project", "namespace", "user")
_PENDING = ("held", "queued", "reserved")


def queue_page(store: Store, principal: Principal) -> list[Json]:
    """Cohorts and queues to which the principal's projects are led, with its own live workloads."""
    authorise(principal, Verb.VIEW, "queue")
    return _page(store, principal, QUEUE_TREE)


def quota_page(store: Store, principal: Principal) -> list[Json]:
    """The organisation as far as the principal sees it, with what it uses of its quota."""
    authorise(principal, Verb.VIEW, "quota")
    return [*_page(store, principal, ORG_TREE), *_users(store, principal)]


def _users(store: Store, principal: Principal) -> list[Json]:
    """Users that have limits: oneself, those in one's own projects; for who sees everything, all."""
    seen = scope(principal, Verb.VIEW, "queue")
    with store.read() as view:
        tree, policy = quota_trees(view).get(USER_TREE), load_policy(view)
        if tree is None:
            return []
        usage = usage_counters(view).get(USER_TREE, {})
        classes = _flavor_classes({row.key: row.spec for row in current(view, Scope.system())})
        live = live_by_shape(view, seen)
        bodies = shape_bodies(view, {number for number, _ in live})
    shapes = {number: read_shape(body) for number, body in bodies.items()}
    counts: dict[str, dict[str, int]] = {}
    for (shape, phase), number in live.items():
        node = own_node(tree, user_path(shapes[shape].user, shapes[shape].project))
        phases = counts.setdefault(node or "", {})
        phases[phase] = phases.get(phase, 0) + number
    return [
        {**node, **_rules(policy, tree, node)}
        for node in tree_views(tree, usage, counts, classes)
        if node["kind"] == "user" and _may_see(principal, seen, *place_of(str(node["node"])))
    ]


def _may_see(principal: Principal, seen: Scope, user: str, project: str | None) -> bool:
    own = user == principal.name or (project is not None and seen.allows(project))
    return seen.projects is None or own


def _page(store: Store, principal: Principal, name: str) -> list[Json]:
    seen = scope(principal, Verb.VIEW, "queue")
    with store.read() as view:
        tree, policy = quota_trees(view)[name], load_policy(view)
        usage = usage_counters(view).get(name, {})
        specs = {row.key: row.spec for row in current(view, Scope.system())}
        live = count_live(view, seen)
        fair = fair_use(view, tree, usage, policy) if name == QUEUE_TREE else None
        made = made_by_queue(view, store.now()) if name == QUEUE_TREE else {}
    keys = visible_keys(specs, seen)
    classes = _flavor_classes(specs)
    counts: dict[str, dict[str, int]] = {}
    for (queue, project, namespace, phase), number in live.items():
        nodes = (queue,) if name == QUEUE_TREE else (f"project/{project}", f"namespace/{namespace}")
        for node in nodes:
            phases = counts.setdefault(node, {})
            phases[phase] = phases.get(phase, 0) + number
    shown_nodes = [node for node in tree_views(tree, usage, counts, classes) if _key(node) in keys]
    if fair is not None:
        for shown_node in shown_nodes:
            for limit in shown_node["limits"]:
                limit.update(fair.get((shown_node["node"], limit["subject"]), NOTHING))
    return [{**node, **_rules(policy, tree, node), **_evictions(made, node)} for node in shown_nodes]


def _evictions(made: Mapping[str, Json], node: Json) -> Json:
    """What was stopped for a queue's work in the last hour, against what that work asked for."""
    if node["kind"] != "queue":
        return {}
    return {"evictions": made.get(node["node"], {"count": 0, "evicted": {}, "requested": {}, "lost_time": 0})}


def _rules(policy: Policy, tree: QuotaTree, node: Json) -> Json:
    """What a queue or cohort goes by, its own or inherited; of the organisation, the weight."""
    if node["kind"] in _ORGANISATION:
        return {"weight": policy.weights.get(node["node"], USUAL_WEIGHT)}
    rules = rules_of(policy, tree, node["node"])
    return {
        "owner": rules.owner, "weight": rules.weight, "strategy": rules.strategy.value,
        "flavors": [
            {"classes": list(group.classes), "flavors": list(group.flavors)} for group in rules.groups
        ],
        "policy_version": policy.version,
    }  # fmt: skip


def _key(node: Json) -> tuple[str, str]:
    return str(node["kind"]).capitalize(), str(node["name"])


def _flavor_classes(specs: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, str]:
    """flavor → class, of the declared pools."""
    return {
        flavor["name"]: flavor["class"]
        for (kind, _), spec in specs.items()
        if kind == Kind.POOL
        for flavor in spec.get("flavors") or ()
    }


def tree_views(
    tree: QuotaTree, usage: Usage, counts: Counts, classes: Mapping[str, str] = MappingProxyType({})
) -> list[Json]:
    """Every node, parents before children. `counts` are of the node's own workloads, not of those below;
    `classes` are those of flavors."""
    names = sorted(tree.nodes, key=lambda name: (len(tree.path(name)), name))
    return [_node(tree, usage, counts, classes, name) for name in names]


def _node(tree: QuotaTree, usage: Usage, counts: Counts, classes: Mapping[str, str], name: str) -> Json:
    node = tree.nodes[name]
    subjects = {subject for _, subject in tree.limits} | {
        subject for owner, subject in usage if owner == name
    }
    phases = counts.get(name, {})
    return {
        "name": name.partition("/")[2] if node.kind in _ORGANISATION else name,
        "node": name,
        "kind": node.kind,
        "parent": node.parent,
        "stopped": node.stopped,
        "limits": [_limit(tree, usage, classes, name, subject) for subject in sorted(subjects)],
        "pending": sum(phases.get(phase, 0) for phase in _PENDING),
        "running": sum(count for phase, count in phases.items() if phase not in _PENDING),
    }


def _limit(tree: QuotaTree, usage: Usage, classes: Mapping[str, str], name: str, subject: str) -> Json:
    limit = tree.limits.get((name, subject))
    flavor = subject.removeprefix(FLAVOR_PREFIX)
    hard = limit.nominal + limit.borrowing_limit if limit and limit.borrowing_limit is not None else None
    nominal = None if limit is None or limit.nominal >= UNBOUNDED else limit.nominal
    return {
        "subject": subject,
        "class": subject if flavor == subject else classes.get(flavor),
        "hard": hard if tree.nodes[name].kind in _ORGANISATION else None,
        "nominal": nominal,
        "borrowing_limit": limit.borrowing_limit if limit else None,
        "lending_limit": limit.lending_limit if limit else None,
        "on_exceed": limit.on_exceed.value if limit else None,
        "on_lowered": limit.on_lowered.value if limit and limit.on_lowered is not None else None,
        "used": usage.get((name, subject), 0),
        "available": shown(available(tree, usage, name, subject)),
        "potential": shown(potential(tree, name, subject)),
    }
