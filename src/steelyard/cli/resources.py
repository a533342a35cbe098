"""What there is: nodes and devices, queues and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import ORDER, amounts
from steelyard.cli.choices import one_of
from steelyard.cli.inventory import device_columns, device_rows, sum_columns
from steelyard.cli.session import Session
from steelyard.cli.tree import ordered
from steelyard.model.policy import FLAVOR_PREFIX
from steelyard.model.resources import DeviceClass
from steelyard.model.units import format_quantity

Text = str | None
All = Annotated[bool, typer.Option("--all")]
_QUEUE_PARTS = ("nominal", "used", "available", "borrowing_limit", "lending_limit", "potential")
_QUOTA_PARTS = ("hard", "used", "available", "on_exceed")


def inventory(
    session: Session,
    cluster: Annotated[Text, typer.Option("--cluster", metavar="NAME")] = None,
    device_class: Annotated[Text, typer.Option("--class", metavar="CLASS")] = None,
    pool: Annotated[Text, typer.Option("--pool", metavar="NAME")] = None,
    summary: Annotated[bool, typer.Option("--summary")] = False,
) -> None:
    """Devices by node, or sums by class."""
    if summary:
        _summary(session)
        return
    one_of(device_class, "--class", DeviceClass)
    nodes = session.client.inventory(**{"cluster": cluster, "class": device_class, "pool": pool})
    rows, columns = device_rows(nodes), device_columns(session)
    session.emit(nodes, lambda: session.table(columns, rows))


def _summary(session: Session) -> None:
    found = session.client.inventory_summary()
    columns = sum_columns(session)
    classes = sorted(found["classes"], key=lambda row: (row["cluster"], _rank(row["class"])))

    def draw() -> None:
        for cluster in found["clusters"]:
            session.say(
                "cli.inventory.cluster",
                name=cluster["name"] + session.simulated(cluster),
                engine=cluster["engine"],
                state=_reachable(cluster),
                at=cluster["observed_at"],
            )
            isolation = cluster.get("isolation")
            if isolation is not None:
                session.say(
                    "cli.inventory.isolation",
                    name=cluster["name"],
                    mode=isolation["mode"],
                    missing=", ".join(isolation["not_enforced"]) or None,
                )
        session.table(columns, classes)

    session.emit(found, draw)


def queues(session: Session, every: All = False) -> None:
    """The queue tree, and what was stopped for each queue's work of late."""
    nodes = session.client.queues()
    _tree(session, nodes, every, _QUEUE_PARTS)
    for node in nodes if session.output in (None, "table") else ():
        made = node.get("evictions") or {"count": 0}
        if made["count"]:
            evicted, requested = (amounts(session, made[part]) for part in ("evicted", "requested"))
            session.say(
                "cli.queues.evictions", queue=node["name"], count=made["count"], evicted=evicted,
                requested=requested,
            )  # fmt: skip


def quotas(session: Session, every: All = False) -> None:
    """The organisation tree."""
    _tree(session, session.client.quotas(), every, _QUOTA_PARTS)


def _tree(session: Session, nodes: list[dict[str, Any]], every: bool, parts: tuple[str, ...]) -> None:
    rows = []
    for depth, node in ordered(nodes):
        stopped = f" ({session.text('cli.queues.stopped')})" if node.get("stopped") else ""
        shared = {"pending": node["pending"], "running": node["running"]}
        shared |= {"name": "  " * depth + node["name"] + stopped, "kind": session.word("scope", node["kind"])}
        limits = [limit for limit in node["limits"] if every or _bounds(limit)]
        for index, limit in enumerate(limits or [{}]):
            rows.append({**(shared if index == 0 else {}), **limit})
    shown = ("name", "kind", "pending", "running", "subject")
    columns: list[Any] = [
        *((f"cli.column.{part}", _or_blank(part)) for part in shown),
        *((f"cli.column.{part.replace('_', '-')}", _limit(session, part)) for part in parts),
    ]
    session.emit(nodes, lambda: session.table(columns, rows))


def _bounds(limit: Mapping[str, Any]) -> bool:
    """Whether it says more than that a flavor is in use: a flavor without limits says no more."""
    given = ("hard", "nominal", "borrowing_limit", "lending_limit")
    is_bound = any(limit.get(part) is not None for part in given)
    return is_bound or not limit["subject"].startswith(FLAVOR_PREFIX)


def _or_blank(part: str) -> Any:
    return lambda row: " " if row.get(part) is None else row[part]


def _limit(session: Session, part: str) -> Any:
    def shown(row: Mapping[str, Any]) -> str | None:
        subject, value = row.get("subject"), row.get(part)
        if subject is None:
            return " "
        if value is None or part == "on_exceed":
            return session.word("on-exceed", value if row.get("hard") is not None else None)
        unit = row.get("class") or ("other" if subject.startswith(FLAVOR_PREFIX) else subject)
        return format_quantity(unit, value)

    return shown


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _reachable(cluster: Mapping[str, Any]) -> str:
    return {True: "answers", False: "silent", None: "unknown"}[cluster["reachable"]]
