"""What there is: by cluster and class, and every node with who has its devices."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.devices import DeviceBox, NodeCard, Part, device_map
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.palette import holder_fills, legend, state_fill
from steelyard.reports.drawing.parts import badge, section, table
from steelyard.reports.drawing.scale import date_and_time

PARTS = ("held", "free", "reserved", "unavailable", "unknown")
#: Part of a device's capacity → the fill it has everywhere on the page.
FILLS = {
    "free": state_fill("idle.schedulable"),
    "reserved": state_fill("idle.reserved"),
    "unavailable": state_fill("unavailable"),
    "unknown": state_fill("unknown"),
}
_BARS = ("cpu", "memory")


def projects(facts: Facts) -> dict[str, str]:
    """A fill for each project, the same all over the page."""
    named = {view["project"] for view in facts.workloads}
    named |= {row["project"] for row in facts.usage.get("rows", ()) if row.get("project")}
    for node in facts.nodes:
        named |= {h["project"] for d in node["devices"] for h in d["holders"] if h["project"]}
    return holder_fills(named)


def resources(facts: Facts, say: Speech) -> Markup:
    """Clusters, classes, and a map of the devices when the accelerators were busiest."""
    if not facts.summary or not facts.nodes:
        return section(f"{say.lang}-resources", say("heading.resources"), missing(say))
    fills = projects(facts)
    shown = {fill: project for project, fill in fills.items()}
    shown |= {FILLS[part]: say.word("state", part) for part in FILLS}
    return section(
        f"{say.lang}-resources",
        say("heading.resources"),
        device_map([_card(node, fills, say) for node in facts.nodes]),
        legend(shown),
        _clusters(facts, say),
        _classes(facts, say),
        lead=say("lead.resources", at=date_and_time(facts.summary.get("as_of"))),
    )


def _card(node: Json, fills: Mapping[str, str], say: Speech) -> NodeCard:
    return NodeCard(
        name=node["name"],
        subtitle=f"{node['cluster']} · {', '.join(node.get('pools') or ()) or '–'}",
        badge=say("simulated") if node["simulated"] else None,
        devices=tuple(_box(device, fills, say) for device in node["devices"]),
    )


def _box(device: Json, fills: Mapping[str, str], say: Speech) -> DeviceBox:
    capacity, name = device["capacity"], device["class"]
    parts = [Part(h["quantity"], fills.get(h["project"] or "", "f-h6")) for h in device["holders"]]
    unseen = device["held"] - sum(part.quantity for part in parts)
    if unseen > 0:
        parts.append(Part(unseen, "f-h6"))
    parts += [Part(device[part], fill) for part, fill in FILLS.items() if device.get(part)]
    holders = ", ".join(
        f"{h['name'] or '–'} ({h['project'] or '–'}) {say.amount(name, h['quantity'])}"
        for h in device["holders"]
    )
    state = say.word("state", device["state"])
    why = f" – {say.word('unavailable', device['reason'])}" if device["reason"] else ""
    mark = f" · {say('simulated')}" if device["simulated"] else ""
    label = say(
        "bar", name=say.word("class", name), held=say.amount(name, device["held"]),
        capacity=say.amount(name, capacity),
    )  # fmt: skip
    return DeviceBox(
        label=label,
        tooltip=f"{device['uid']} · {device['model']}{mark}\n{state}{why}\n{holders}".strip(),
        capacity=capacity,
        parts=tuple(parts),
        bar=name in _BARS,
        alert=device["state"] in ("unavailable", "unknown"),
    )


def _clusters(facts: Facts, say: Speech) -> Markup:
    rows = [
        (
            el("span", cluster["name"], cls="tight"),
            el("span", say.word("engine", cluster["engine"]), cls="tight"),
            badge(say("simulated"), "sim") if cluster["simulated"] else badge(say("real"), "plain"),
            say.word("yes", {True: "true", False: "false"}.get(cluster["reachable"])),
            date_and_time(cluster["observed_at"]),
        )
        for cluster in facts.summary["clusters"]
    ]
    head = ("col.cluster", "col.engine", "col.nature", "col.reachable", "col.observed")
    return table([say(code) for code in head], rows)


def _classes(facts: Facts, say: Speech) -> Markup:
    rows = [
        (
            el("span", say.kind_of(row["class"], row["simulated"]), cls="tight"),
            el("span", row["cluster"], cls="tight"),
            say.amount(row["class"], row["capacity"]),
            *(say.amount(row["class"], row.get(part)) for part in PARTS),
        )
        for row in facts.summary["classes"]
    ]
    head = [say("col.class"), say("col.cluster"), say("col.capacity"), *(say.word("state", p) for p in PARTS)]
    return table(head, rows, figures=range(2, 8))
