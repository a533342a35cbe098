"""Asks a family's tool, and makes one answer of what its questions gave.

What a tool lists is its devices; what it does not list is not there only if the listing is `whole`: not cut,
not partly unreadable, not ended by a limit. Why nobody listed is one sign, which each device of the family
then has.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.devices import nvml
from steelyard.devices.parsers import parse
from steelyard.devices.probes import Probe, Question, VendorTool
from steelyard.devices.reading import DETAIL_LIMIT, Parsed, Problem, ProblemCode, Reading, judged, kept
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.tool import Outcome, Tool, find_tool, run_tool
from steelyard.model.health import Health, Sign, SignCode, SignSource
from steelyard.model.units import SECOND

#: With one of these a listing may lack devices.
_NOT_WHOLE = frozenset(
    {ProblemCode.UNRECOGNISED, ProblemCode.TOOL_FOREIGN, ProblemCode.TRUNCATED, ProblemCode.TOO_LONG,
     ProblemCode.TOOL_ERROR}
)  # fmt: skip
_PROBLEMS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a family's tool said at one time. `at`: µs; `number` grows with every answer of a family.

    `listed`: it told of devices, or that there are none; `whole`: what it does not list is not there;
    `parts`: the same of partitions.
    """

    family: str
    at: int
    number: int = 0
    readings: tuple[Reading, ...] = ()
    listed: bool = False
    whole: bool = False
    parts: bool = False
    sign: Sign | None = None
    tool: str | None = None
    path: str | None = None
    version: str | None = None
    driver: str | None = None
    problems: tuple[Problem, ...] = ()
    micros: int = 0



def unknown(code: SignCode, detail: str = "") -> Sign:
    """A sign that nothing is known."""
    return Sign(code, Health.UNKNOWN, SignSource.TOOL, kept(detail)[:DETAIL_LIMIT])


class Asker:
    """Asks one family. Not for several threads at once; `stop` may be set by any."""

    def __init__(self, probe: Probe, settings: DeviceSettings, stop: threading.Event) -> None:
        self.probe = probe
        self._settings = settings
        self._stop = stop
        self._found: dict[str, Tool] = {}
        self._hanging: Outcome | None = None

    def tools(self) -> list[tuple[VendorTool, Tool]]:
        """The family's tools with where they are; what was found once is not looked for again."""
        with_paths = []
        for tool in self.probe.tools:
            known = self._found.get(tool.name)
            if known is None or known.path is None:
                known = self._found[tool.name] = find_tool(tool.name, self._settings.tools)
            with_paths.append((tool, known))
        return with_paths

    def ask(self, now: Callable[[], int], groups: Sequence[int] = ()) -> Answer:
        """One round. Takes as long as its tools may; raises nothing that a tool does."""
        if self._hanging is not None and self._hanging.left is not None:
            if self._hanging.left.poll() is None:
                sign = unknown(SignCode.TOOL_TIMEOUT, "an earlier call could not be ended")
                return Answer(self.probe.family, now(), sign=sign)
            self._hanging = None
        answer: Answer | None = None
        missing: Tool | None = None
        if self.probe.family == nvml.FAMILY and not self._settings.simulated and has_nvml():
            answer = self._asked(NVML, Tool(nvml.TOOL, sys.executable), now, groups)
        for tool, where in self.tools():
            if answer is not None and answer.listed:
                break
            if where.path is None:
                missing = missing or where
                continue
            answer = self._asked(tool, where, now, groups)
        if answer is not None:
            return answer
        code, detail = (missing.problem, missing.detail) if missing is not None else (None, "")
        return Answer(self.probe.family, now(), sign=unknown(code or SignCode.TOOL_MISSING, detail))

    def _asked(
        self, tool: VendorTool, where: Tool, now: Callable[[], int], groups: Sequence[int]
    ) -> Answer:
        answer = Answer(self.probe.family, 0, tool=tool.name, path=where.path)
        for place, question in enumerate(tool.questions):
            if question.when == "mig" and not any(reading.mig for reading in answer.readings):
                answer = replace(answer, parts=answer.whole)
                continue
            outcome = self._run(tool, where, question, groups)
            parsed = self._parsed(tool, question, outcome)
            answer = replace(answer, micros=answer.micros + outcome.micros)
            if place == 0:
                answer = _first(answer, outcome, parsed)
                if not answer.readings:
                    break
            else:
                answer = _further(answer, outcome, parsed, question)
        if all(question.when is None for question in tool.questions):
            answer = replace(answer, parts=answer.whole)
        return replace(answer, at=now())

    def _run(self, tool: VendorTool, where: Tool, question: Question, groups: Sequence[int]) -> Outcome:
        assert where.path is not None
        outcome = run_tool(
            where.path,
            question.arguments,
            seconds=self._settings.time_limit / SECOND,
            groups=groups,
            keep_user=tool.name in self._settings.privileged,
            libraries=tool.libraries,
            stop=self._stop,
        )
        if outcome.left is not None:
            self._hanging = outcome
        return outcome

    def _parsed(self, tool: VendorTool, question: Question, outcome: Outcome) -> Parsed:
        if outcome.problem is not None:
            return Parsed()
        text = outcome.text if outcome.text.strip() else outcome.error
        if tool.name == nvml.TOOL:
            return nvml.parse_report(text)
        try:
            return parse(tool.name, None, text, family=self.probe.family)
        except KeyError:  # no layout of such a tool is known yet
            return Parsed(problems=(Problem(ProblemCode.UNRECOGNISED, kept(text[:200])),))


NVML = VendorTool(nvml.TOOL, (Question(("-I", "-m", nvml.__name__)),))


def has_nvml() -> bool:
    """Whether NVIDIA's own Python package is installed."""
    return importlib.util.find_spec("pynvml") is not None


def _first(answer: Answer, outcome: Outcome, parsed: Parsed) -> Answer:
    """The listing."""
    problems = parsed.problems[:_PROBLEMS_KEPT]
    empty = any(problem.code is ProblemCode.NO_DEVICE for problem in problems)
    listed = bool(parsed.readings) or (empty and outcome.problem is None)
    whole = listed and outcome.problem is None and not any(p.code in _NOT_WHOLE for p in problems)
    # A row that can't be told from others may be of any device.
    rows = sum(problem.code is ProblemCode.ROW_INCOMPLETE for problem in problems)
    whole = whole and rows <= sum(not reading.complete for reading in parsed.readings)
    return replace(
        answer,
        readings=parsed.readings,
        listed=listed,
        whole=whole,
        sign=None if listed else why_not(outcome, parsed),
        version=parsed.tool_version,
        driver=parsed.driver,
        problems=problems,
    )


def _further(answer: Answer, outcome: Outcome, parsed: Parsed, question: Question) -> Answer:
    """What a later question adds. That it failed takes nothing away from what was listed."""
    failed = outcome.problem is not None or any(problem.code in _NOT_WHOLE for problem in parsed.problems)
    cards = [one for one in parsed.readings if one.parent is None]
    more = any(not any(same_device(one, other) for one in answer.readings) for other in cards)
    readings = merged(answer.readings, parsed.readings)
    answer = replace(answer, readings=readings, whole=answer.whole and not more)
    if question.when == "mig":
        return replace(answer, parts=answer.whole and not failed)
    if parsed.processes and not failed:
        answer = replace(answer, readings=tuple(_with_nobody(one) for one in answer.readings))
    return answer


def _with_nobody(reading: Reading) -> Reading:
    """All that are on the devices were told, and nobody is on this one."""
    return reading if reading.holders is not None or not reading.complete else replace(reading, holders=())


def why_not(outcome: Outcome, parsed: Parsed) -> Sign:
    """Why nothing was listed: what the run came to, else what the text tells of."""
    if outcome.problem is not None:
        return unknown(outcome.problem, outcome.detail or outcome.error)
    for problem in parsed.problems:
        if problem.sign is not None:
            return unknown(problem.sign, problem.line)
    line = next((problem.line for problem in parsed.problems if problem.line), "")
    return unknown(SignCode.TOOL_FAILED, line or f"exit status {outcome.status}")


def merged(first: Sequence[Reading], more: Iterable[Reading]) -> tuple[Reading, ...]:
    """Readings with what others of the same devices add: None is filled, signs and holders are joined.

    Partitions are added, and cards of which something bad is told. A card that only a later answer knows and
    finds nothing wrong with is left out: its name alone says nothing of its health.
    """
    found = list(first)
    for other in more:
        place = next((n for n, one in enumerate(found) if same_device(one, other)), None)
        if place is not None:
            found[place] = _joined(found[place], other)
        elif other.parent is not None or other.signs:
            found.append(other)
    return tuple(found)


def same_device(one: Reading, other: Reading) -> bool:
    """Whether two readings of a family are of one device: by the first identity that both have."""
    if (one.parent is None) != (other.parent is None):
        return False
    chips = _chip(one), _chip(other)
    if None not in chips:
        return chips[0] == chips[1]
    for name in ("uuid", "pci", "index"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is not None and theirs is not None:
            return bool(mine == theirs) and (name == "uuid" or not _differ(one, other))
    return False


def _chip(reading: Reading) -> tuple[int, str | int] | None:
    """Card and chip of it, where a tool numbers its chips so: two of its lists may number them otherwise."""
    chip = reading.other.get("chip")
    return None if reading.module is None or chip is None else (reading.module, chip)


def _differ(one: Reading, other: Reading) -> bool:
    """Whether they are told apart by an index of the card (two dies on one bus address)."""
    return one.index is not None and other.index is not None and one.index != other.index


_FILLED = (
    "index", "host_index", "in_container", "module", "uuid", "serial", "pci", "partition", "model", "memory",
    "memory_used", "utilisation", "memory_utilisation", "temperature", "power", "power_limit", "driver",
    "firmware", "ecc_uncorrected", "mig",
)  # fmt: skip


def _joined(one: Reading, other: Reading) -> Reading:
    """`one`, filled up from `other`; a figure is not filled into a row that was not complete."""
    if not one.complete:
        return one
    gaps = {name: getattr(other, name) for name in _FILLED if getattr(one, name) is None}
    codes = {sign.code for sign in one.signs}
    signs = (*one.signs, *(sign for sign in other.signs if sign.code not in codes))
    holders = one.holders
    if other.holders is not None:
        holders = (*(holders or ()), *(who for who in other.holders if who not in (holders or ())))
    return judged(replace(one, **gaps, holders=holders, other={**other.other, **one.other}), signs)
