"""Queues and quotas as trees with what is owned, used and could be had; what waits; what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import scope
from steelyard.model.organisation import Verb
from steelyard.reports.drawing.fleet import Bullet, bullet
from steelyard.reports.drawing.markup import Markup
from steelyard.services import queues, refusals
from steelyard.services.overview import waiting
from steelyard.services.quota_inventory import quota_inventory
from steelyard.services.waiting_order import waiting_order

Json = dict[str, Any]
LATELY, REASONS, PAGE_SIZE = 8, 10, 50


def queue_page(visit: Visit) -> Response:
    """Both trees, the reasons of what waits, the newest refusals."""
    store, who = visit.console.store, visit.principal
    lately, more = refusals.refusal_page(store, who, project=None, cursor=None, limit=LATELY)
    return visit.show(
        "queues.html",
        queues=_tree(queues.queue_page(store, who)),
        quotas=_tree(queues.quota_page(store, who)),
        waits=waiting(store, who, REASONS),
        refusals=lately,
        more_refusals=more is not None,
        inventory=_inventory(visit),
        bar=lambda limit: _bar(visit, limit),
    )


def _inventory(visit: Visit) -> list[Json]:
    """Quota against what there is, where the reader sees the whole installation."""
    if scope(visit.principal, Verb.VIEW, "queue").projects is not None:
        return []
    return quota_inventory(visit.console.store, visit.console.desk.snapshots, visit.principal)


def one_queue(visit: Visit) -> Response:
    """One queue: the order of what waits in it, its limits, the rules in force."""
    name = visit.named("queue")
    found = waiting_order(visit.console.desk, visit.principal, name)
    tree = _tree(queues.queue_page(visit.console.store, visit.principal))
    shown = next(node for node in tree if node["node"] == name)
    return visit.show(
        "queue.html", found=found, queue={**shown, "depth": 0}, bar=lambda limit: _bar(visit, limit)
    )


def refusal_list(visit: Visit) -> Response:
    """Requests that were turned away, the newest first."""
    found, following = refusals.refusal_page(
        visit.console.store,
        visit.principal,
        project=visit.asked("project", 63) or None,
        cursor=visit.asked("cursor") or None,
        limit=PAGE_SIZE,
    )
    return visit.show("refusals.html", refusals=found, following=following)


def _tree(nodes: Iterable[Json]) -> list[Json]:
    """Each node under its parent, with its `depth`; one whose parent is not shown stands at the edge."""
    listed = list(nodes)
    there = {node["node"] for node in listed}
    children: dict[str | None, list[Json]] = defaultdict(list)
    for node in listed:
        children[node["parent"] if node["parent"] in there else None].append(node)
    return list(_walk(children, None, 0))


def _counted(children: Mapping[str | None, list[Json]], node: Json, name: str) -> int:
    """Workloads of a node; of a group of queues or projects those of all below it that are shown."""
    if node["kind"] not in ("cohort", "team"):
        return int(node[name])
    return sum(_counted(children, child, name) for child in children.get(node["node"], ()))


def _walk(children: Mapping[str | None, list[Json]], parent: str | None, depth: int) -> Iterator[Json]:
    for node in sorted(children.get(parent, ()), key=lambda each: str(each["name"])):
        bounded = [limit for limit in node["limits"] if _is_bounded(limit)]
        yield {
            **node,
            "depth": depth,
            "limits": bounded,
            "unbounded": _unbounded(node["limits"]),
            **{name: _counted(children, node, name) for name in ("pending", "running")},
        }
        yield from _walk(children, node["node"], depth + 1)


def _is_bounded(limit: Json) -> bool:
    return any(limit[name] is not None for name in ("nominal", "hard", "potential"))


def _unbounded(limits: Iterable[Json]) -> dict[str, int]:
    """class → what is used of it though nothing limits it. Flavors are of a class that is there itself."""
    return {
        limit["class"]: limit["used"]
        for limit in limits
        if limit["class"] == limit["subject"] and limit["used"] and not _is_bounded(limit)
    }


def _bar(visit: Visit, limit: Json) -> Markup | None:
    """Use against what is owned; None where no class is known to count in."""
    owned = limit["nominal"] if limit["hard"] is None else limit["hard"]
    if limit["class"] is None:
        return None
    speech, name = visit.speech, limit["class"]
    said = [speech.say("queues.bar.used", amount=speech.amount(name, limit["used"]))]
    if owned is not None:
        said.append(speech.say("queues.bar.owned", amount=speech.amount(name, owned)))
    if limit["potential"] is not None:
        said.append(speech.say("queues.bar.potential", amount=speech.amount(name, limit["potential"])))
    return bullet(Bullet(limit["used"], owned, limit["potential"]), " · ".join(said))


PAGES = [
    Page("GET", "/queues", queue_page),
    Page("GET", "/queues/{queue}", one_queue),
    Page("GET", "/refusals", refusal_list),
]
