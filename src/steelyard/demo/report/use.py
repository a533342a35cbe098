"""Who used what: for each class, what was held by whom and what the rest was, up to the capacity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.resources import projects
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.palette import IDLE, OTHER_STATES, legend, state_fill
from steelyard.reports.drawing.parts import chart, section
from steelyard.reports.drawing.stacked import Layer, Segment, stacked

Key = tuple[str, bool]  # (class, simulated)
_ORDER = ("gpu", "npu", "other", "cpu", "memory")
#: What is simulated and no accelerator is told at less length.
_ASIDE = (("cpu", True), ("memory", True))


def use(facts: Facts, say: Speech) -> Markup:
    """One picture for each class; what is real and what is simulated never in one."""
    anchor, heading = f"{say.lang}-use", say("heading.use")
    if not facts.segments or not facts.capacity:
        return section(anchor, heading, missing(say))
    simulated = _simulated(facts)
    held = _grouped(facts.segments, simulated)
    roofs = _grouped(facts.capacity, simulated)
    keys = sorted(roofs, key=lambda key: (_ORDER.index(key[0]), key[1]))
    pictures = {key: _picture(key, held[key], roofs[key], facts, say) for key in keys}
    return section(
        anchor,
        heading,
        [pictures[key] for key in keys if key not in _ASIDE],
        el("details", el("summary", say("use.aside")), [pictures[key] for key in keys if key in _ASIDE]),
        lead=say("lead.use"),
    )


def _simulated(facts: Facts) -> dict[str, bool]:
    """Device → whether it is simulated, where a row does not say so itself."""
    return {d["id"]: d["simulated"] for node in facts.nodes for d in node["devices"]}


def _grouped(rows: Iterable[Json], simulated: Mapping[str, bool]) -> defaultdict[Key, list[Json]]:
    groups: defaultdict[Key, list[Json]] = defaultdict(list)
    for row in rows:
        mark = row.get("simulated")
        groups[row["class"], bool(simulated.get(row["resource"]) if mark is None else mark)].append(row)
    return groups


def _picture(key: Key, rows: list[Json], roofs: list[Json], facts: Facts, say: Speech) -> Markup:
    name, window = key[0], facts.window
    fills = projects(facts)
    layers, shown = [], {}
    for label, fill, segments in _layers(rows, fills, say):
        whole = sum(q * (min(t1, window[1]) - max(t0, window[0])) for t0, t1, q in segments if t1 > window[0])
        layers.append(Layer(label, fill, tuple(segments), f"{label}: {say.product(name, max(0, whole))}"))
        shown[fill] = label
    roof = tuple((row["t0"], row["t1"], row["capacity"]) for row in roofs)
    title = say.kind_of(name, key[1])
    return chart(
        say("use.caption", name=title, unit=say(f"unit.{name}")),
        stacked(layers, roof, window, name, title),
        legend(shown),
    )


def _layers(
    rows: list[Json], fills: Mapping[str, str], say: Speech
) -> Iterable[tuple[str, str, list[Segment]]]:
    """(label, fill, segments) from the bottom up: projects, then idle by cause, then what was not there."""
    groups: defaultdict[str, list[Segment]] = defaultdict(list)
    for row in rows:
        groups[_layer_of(row)].append((row["t0"], row["t1"], row["quantity"]))
    for project, fill in fills.items():
        if groups.get(f"project/{project}"):
            yield project, fill, groups[f"project/{project}"]
    if groups.get("project/"):
        yield say("use.unattributed"), "f-h6", groups["project/"]
    for state in (*IDLE, *OTHER_STATES):
        if groups.get(state):
            yield say.word("state", state), state_fill(state), groups[state]


def _layer_of(row: Json) -> str:
    if row["kind"] == "holding":
        return f"project/{row.get('project') or ''}"
    state = row.get("state") or row["kind"]
    return state if state in IDLE or state in OTHER_STATES else _plain(row["kind"])


def _plain(kind: str) -> str:
    return "idle.schedulable" if kind == "idle" else kind
