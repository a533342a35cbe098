"""A workload's story as a picture: when each attempt waited, started, ran, stopped and gave back, and what
its members held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.console.speech import Speech
from steelyard.reports.drawing.gantt import Gantt, Line, Mark, Tile
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.palette import legend, stage_fill

Json = Mapping[str, Any]
MAX_MEMBERS = 16
MAX_ATTEMPTS = 6
#: More waits than that can't be told apart in the picture.
MAX_WAITS = 300
_STATES = ("waiting", "starting", "running", "stopping", "releasing")
_ACCELERATORS = ("gpu", "npu", "other")


def story(view: Json, speech: Speech, now: int) -> Markup | None:
    """The picture with its legend; None where there is nothing to show yet."""
    groups = [
        (_heading(attempt, speech), _lines(attempt, speech, now))
        for attempt in view["attempts"][-MAX_ATTEMPTS:]
    ]
    instants = [tile.t0 for _, lines in groups for line in lines for tile in line.tiles]
    ends = [tile.t1 for _, lines in groups for line in lines for tile in line.tiles]
    if not instants or max(ends) <= min(instants):
        return None
    first, last = min(instants), max(ends)
    room = max(1, (last - first) // 40)
    window = (first - room // 2, last + room)
    title = speech.say("workload.story.title", name=view["name"])
    picture = Gantt(title, window, groups, offset=speech.offset(first)).draw()
    shown = {stage_fill(state): speech.word("state", state) for state in _STATES}
    shown["f-held-by"] = speech.word("state", "held")
    return el("figure", el("div", picture, cls="scroll", tabindex=0), legend(shown), cls="plate")


def _heading(attempt: Json, speech: Speech) -> str:
    place = f" – {attempt['cluster']}" if attempt["cluster"] else ""
    mark = f" ({speech.say('common.simulated')})" if attempt["simulated"] else ""
    return speech.say("workload.attempt", number=attempt["number"]) + place + mark


def _lines(attempt: Json, speech: Speech, now: int) -> list[Line]:
    tiles = [_wait(wait, speech, now) for wait in _waits(attempt, now)]
    tiles += [_tile(tile["state"], tile["t0"], tile["t1"], speech) for tile in attempt["tiles"]]
    confirmed = attempt["times"]["release_confirmed"]
    marks: tuple[Mark, ...] = ()
    if attempt["outcome"] and confirmed:
        marks = (Mark(confirmed, attempt["outcome"], speech.word("outcome", attempt["outcome"])),)
    lines = [Line(speech.say("workload.stages"), "", tuple(tiles), marks, attempt["simulated"])]
    if attempt["times"]["placed"] is None:
        return lines
    lines += [_member(member, attempt, speech, now) for member in attempt["members"][:MAX_MEMBERS]]
    more = len(attempt["members"]) - MAX_MEMBERS
    if more > 0:
        lines.append(Line(speech.say("workload.more-members", count=more), "", ()))
    return lines


def _waits(attempt: Json, now: int) -> list[Json]:
    """Waits so far; the time that no slice covers yet is one whose reason is still open."""
    waits = list(attempt["waits"])
    if len(waits) > MAX_WAITS:
        waits = [{"reason": None, "t0": waits[0]["t0"], "t1": waits[-1]["t1"]}]
    placed = attempt["times"]["placed"] or attempt["times"]["release_confirmed"] or now
    known = max([wait["t1"] or now for wait in waits], default=attempt["times"]["submitted"])
    if known < placed:
        waits.append({"reason": None, "t0": known, "t1": placed})
    return waits


def _wait(wait: Json, speech: Speech, now: int) -> Tile:
    t1 = wait["t1"] or now
    why = speech.word("state", "waiting")
    if wait["reason"] is not None:
        why = speech.say("workload.waits-for", reason=speech.word("wait", wait["reason"]))
    return Tile(wait["t0"], t1, stage_fill("waiting"), _with_times(why, wait["t0"], t1, speech), thin=True)


def _tile(state: str, t0: int, t1: int, speech: Speech) -> Tile:
    return Tile(t0, t1, stage_fill(state), _with_times(speech.word("state", state), t0, t1, speech))


def _member(member: Json, attempt: Json, speech: Speech, now: int) -> Line:
    held = [device for device in member["devices"] if device["t1"] is None or device["t1"] > device["t0"]]
    models = {device["model"] for device in held if device["class"] in _ACCELERATORS}
    note = " ".join(filter(None, (member["node"], *sorted(model for model in models if model))))
    tiles = []
    for t0 in sorted({device["t0"] for device in held}):
        t1 = max(device["t1"] or now for device in held if device["t0"] == t0)
        what = ", ".join(
            speech.amount(device["class"], device["quantity"]) for device in held if device["t0"] == t0
        )
        tiles.append(Tile(t0, t1, "f-held-by", _with_times(what, t0, t1, speech)))
    return Line(f"{member['role']}/{member['index']}", note, tuple(tiles), hatched=attempt["simulated"])


def _with_times(text: str, t0: int, t1: int, speech: Speech) -> str:
    return f"{text}\n{speech.clock(t0)} – {speech.clock(t1)} ({speech.span(t1 - t0)})"
