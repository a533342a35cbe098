"""Every sample text of a vendor tool gives exactly the records that were written down for it by hand.

`tests/data/devices/samples/` holds the texts, `tests/data/devices/expected/VENDOR.yaml` what each of them
says, `tests/data/devices/marks.yaml` how far each can be trusted: no file is a capture of a real machine.
A sample may hold several outputs, separated by lines that start with `# ---`.

An expected reading lists the fields that differ from their default (`complete` is true unless said);
a sign is [code, health, source, detail, params], a holder [pid, name, MiB], a problem [code, line, sign].
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from steelyard.devices.parsers import layouts, parse
from steelyard.devices.reading import FIGURES, Parsed, Problem, ProblemCode, Reading
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode
from tests.support.device_samples import DATA, SAMPLES, Part, all_parts, expectations, identity

MARKS = {"A", "B", "C", "S", "M"}
#: Marks of which a text may stand in as something that was seen printed whole in public.
SEEN = {"A"}
_DEFAULTS = {
    field.name: field.default if field.default is not dataclasses.MISSING else field.default_factory()
    for field in dataclasses.fields(Reading)
    if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
}


def marks() -> dict[str, str]:
    """Sample → its marks, e.g. `A` or `B S`."""
    table: dict[str, str] = yaml.safe_load((DATA / "marks.yaml").read_text(encoding="utf-8"))["samples"]
    return table


def as_written(value: object) -> object:
    """A field of a reading as the table writes it."""
    if isinstance(value, Sign):
        return [value.code.value, value.health.value, value.source.value, value.detail, value.params]
    if isinstance(value, DeviceHolder):
        return [value.pid, value.name, value.memory]
    if isinstance(value, Problem):
        return [value.code.value, value.number, value.sign.value if value.sign else None]
    if isinstance(value, Health):
        return value.value
    if isinstance(value, tuple):
        return [as_written(one) for one in value]
    return value


def written(reading: Reading) -> dict[str, object]:
    """A reading as the table writes it: the fields that differ from their default, without its line."""
    row: dict[str, object] = {}
    for field in dataclasses.fields(Reading):
        value = getattr(reading, field.name)
        default = _DEFAULTS.get(field.name, dataclasses.MISSING)
        if field.name in ("line", "tool", "layout") or value == default:
            continue
        row[field.name] = as_written(value)
    if row["complete"] is True:
        del row["complete"]
    return row


def filled(row: list[Any], length: int) -> list[Any]:
    """A list of the table with what it leaves out at its end."""
    rest = ["", {}] if length == 5 else [None, None, None]
    return [*row, *rest[len(rest) - (length - len(row)) :]] if len(row) < length else row


def expected_readings(part: Part) -> list[dict[str, Any]]:
    """The readings of the table, with what all of them share and with short lists filled."""
    shared = part.expected.get("all", {})
    found = []
    for one in part.expected.get("readings", []):
        row = {**shared, **one}
        row = {name: value for name, value in row.items() if value is not None}
        if "signs" in row:
            row["signs"] = [filled(sign, 5) for sign in row["signs"]]
        if row.get("complete") is True:
            del row["complete"]
        found.append(row)
    return found


def read(part: Part) -> Parsed:
    return parse(part.tool, part.layout, part.text)


PARTS = all_parts()


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_sample_gives_exactly_the_records_written_down_for_it(part: Part) -> None:
    parsed = read(part)
    assert [written(reading) for reading in parsed.readings] == expected_readings(part)
    wanted = [filled(problem, 3) for problem in part.expected.get("problems", [])]
    assert [as_written(problem) for problem in parsed.problems] == wanted
    for name in ("tool_version", "driver", "attached", "layout"):
        assert getattr(parsed, name) == part.expected.get(name), name
    assert parsed.processes is part.expected.get("processes", False)
    assert {reading.tool for reading in parsed.readings} <= {part.tool}
    assert {reading.layout for reading in parsed.readings} <= {part.expected.get("layout")}


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_an_incomplete_row_has_no_figure_and_unknown_health_and_every_row_keeps_its_line(part: Part) -> None:
    for reading in read(part).readings:
        assert reading.line
        if not reading.complete:
            assert all(getattr(reading, name) is None for name in FIGURES)
            assert reading.health is Health.UNKNOWN
            assert [sign.code for sign in reading.signs] == [SignCode.ROW_INCOMPLETE]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_cut_output_never_gives_a_figure_that_the_whole_one_does_not(part: Part) -> None:
    """Cut anywhere: a reading that is left has the figures of the whole output, or none.

    In a series of samples the last one holds, so a cut one tells an earlier sample.
    """
    if part.expected.get("series"):
        return
    seen = {identity(reading): reading for reading in read(part).readings}
    step = max(1, len(part.text) // 60)
    for end in range(0, len(part.text), step):
        for reading in parse(part.tool, part.layout, part.text[:end]).readings:
            whole = seen.get(identity(reading))
            for name in FIGURES:
                figure = getattr(reading, name)
                assert figure is None or (whole is not None and figure == getattr(whole, name)), (end, name)


def test_every_sample_has_its_row_and_its_mark() -> None:
    samples = {path.name for path in SAMPLES.iterdir()}
    assert set(marks()) == samples
    assert set(expectations()) == samples
    for sample, mark in marks().items():
        assert set(mark.split()) <= MARKS, sample


def test_nothing_below_the_best_mark_counts_as_seen_and_no_sample_is_a_capture() -> None:
    document = yaml.safe_load((DATA / "marks.yaml").read_text(encoding="utf-8"))
    assert document["captures"] == 0
    assert set(document["marks"]) == MARKS
    seen = {sample for sample, mark in marks().items() if set(mark.split()) <= SEEN}
    assert seen == {sample for sample, mark in marks().items() if mark == "A"}
    assert "nvidia-smi_query_faulty_rows.csv" not in seen


def test_no_sample_is_taken_for_one_of_another_vendors_tool() -> None:
    for part in PARTS:
        parsed = read(part)
        families = {reading.family for reading in parsed.readings}
        others = {layout.family for layout in layouts(part.tool)} - families - {""}  # "": of any family
        for family in others if families else ():
            foreign = parse(part.tool, part.layout, part.text, family=family)
            assert foreign.readings == (), str(part)
            assert {problem.code for problem in foreign.problems} == {ProblemCode.TOOL_FOREIGN}, str(part)
