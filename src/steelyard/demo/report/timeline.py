"""When everything happened: a line for each workload, its attempts one after another."""

from __future__ import annotations

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.gantt import GLYPHS, Band, Gantt, Line, Mark, Tile
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.palette import legend, stage_fill
from steelyard.reports.drawing.parts import chart, section
from steelyard.reports.drawing.scale import clock

_STATES = ("waiting", "starting", "running", "stopping", "releasing")


def timeline(facts: Facts, say: Speech) -> Markup:
    """All workloads, those on this machine first."""
    anchor, heading = f"{say.lang}-timeline", say("heading.timeline")
    if not facts.workloads:
        return section(anchor, heading, missing(say))
    ordered = sorted(facts.workloads, key=lambda view: view["submitted_at"])
    clusters = sorted(
        {_cluster(view) for view in ordered}, key=lambda name: (_is_simulated(facts, name), name)
    )
    groups = [
        (_group(facts, name, say), [_line(view, say) for view in ordered if _cluster(view) == name])
        for name in clusters
    ]
    bands = []
    if facts.silence:
        label = say("timeline.silence", cluster=facts.silence["cluster"])
        bands.append(Band(facts.silence["t0"], facts.silence["t1"], label))
    if facts.moved_at is not None:
        bands.append(Band(facts.moved_at, facts.moved_at, say("timeline.moved"), "moment"))
    picture = Gantt(say("timeline.title"), _window(facts), groups, bands).draw()
    shown = {stage_fill(state): say.word("state", state) for state in _STATES}
    shown |= {band.fill: band.label for band in bands}
    return section(
        anchor, heading, chart(say("timeline.caption"), picture, legend(shown)), _ends(say),
        lead=say("lead.timeline"),
    )  # fmt: skip


def _window(facts: Facts) -> tuple[int, int]:
    """From the first submit to the last receipt, with a little room."""
    first = min(view["submitted_at"] for view in facts.workloads)
    ends = [a["times"]["release_confirmed"] or 0 for view in facts.workloads for a in view["attempts"]]
    last = max([*ends, first + 1])
    return first - (last - first) // 60, last + (last - first) // 40


def _cluster(view: Json) -> str:
    return next((a["cluster"] for a in reversed(view["attempts"]) if a["cluster"]), "")


def _is_simulated(facts: Facts, name: str) -> bool:
    return any(view["simulated"] for view in facts.workloads if _cluster(view) == name)


def _group(facts: Facts, name: str, say: Speech) -> str:
    if not name:
        return say("timeline.nowhere")
    mark = say("simulated") if _is_simulated(facts, name) else say("real-processes")
    return f"{name} – {mark}"


def _line(view: Json, say: Speech) -> Line:
    tiles: list[Tile] = []
    marks = []
    for attempt in view["attempts"]:
        tiles += [_wait(wait, say) for wait in attempt["waits"] if wait["t1"] is not None]
        tiles += [_tile(tile, attempt, say) for tile in attempt["tiles"]]
        if attempt["outcome"] and attempt["times"]["release_confirmed"]:
            label = say.word("outcome", attempt["outcome"])
            tooltip = say("timeline.end", number=attempt["number"], outcome=label)
            marks.append(Mark(attempt["times"]["release_confirmed"], attempt["outcome"], tooltip))
    note = f"{view['project']} · {say.word('kind', view['kind'])}"
    return Line(view["name"], note, tuple(tiles), tuple(marks), bool(view["simulated"]))


def _wait(wait: Json, say: Speech) -> Tile:
    why = say("timeline.wait", reason=say.word("wait", wait["reason"]))
    return Tile(wait["t0"], wait["t1"], stage_fill("waiting"), _with_times(why, wait, say), thin=True)


def _tile(tile: Json, attempt: Json, say: Speech) -> Tile:
    state = say("timeline.tile", state=say.word("state", tile["state"]), number=attempt["number"])
    return Tile(tile["t0"], tile["t1"], stage_fill(tile["state"]), _with_times(state, tile, say))


def _with_times(text: str, piece: Json, say: Speech) -> str:
    lasted = say.duration(piece["t1"] - piece["t0"])
    return f"{text}\n{clock(piece['t0'])} – {clock(piece['t1'])} UTC ({lasted})"


def _ends(say: Speech) -> Markup:
    return el(
        "ul",
        [el("li", f"{glyph} {say.word('outcome', outcome)}") for outcome, glyph in GLYPHS.items()],
        cls="legend",
    )
