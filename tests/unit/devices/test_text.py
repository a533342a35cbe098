"""What the parsers share: figures and units, unknown values, bus addresses, sections, JSON between lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from steelyard.devices.output import LINE_MAX, output_of
from steelyard.devices.reading import TEXT_LIMIT, ProblemCode
from steelyard.devices.text import (
    UnreadableError,
    box_cells,
    celsius,
    csv_cells,
    csv_columns,
    entries,
    is_rule,
    json_in,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    split_entry,
    used_of_total,
    value_of,
    whole,
)


@pytest.mark.parametrize(
    "text", ["N/A", "[N/A]", "", " - ", "NA", "ERR!", "[Unknown Error]", "[GPU requires reset]", "none"]
)
def test_what_a_vendor_does_not_know_is_none_and_never_zero(text: str) -> None:
    assert known(text) is None
    assert mib(text) is milliwatts(text) is percent(text) is celsius(text) is whole(text) is pci(text) is None


def test_figures_are_integers_in_the_units_of_a_reading() -> None:
    assert mib("81920 MiB") == mib("81920") == mib("80 GB") == mib("83886080 KBytes") == 81920
    assert mib("17163091968", "B") == 16368
    assert mib("14248.00 MiB") == 14248
    assert milliwatts("61.42 W") == milliwatts("61.42") == 61420
    assert milliwatts("138000 mW") == 138000
    assert percent("87 %") == percent("87.9") == 87
    assert celsius("38.0°C") == celsius("38") == celsius("38 C") == 38
    assert used_of_total("60000/ 65536") == (60000, 65536)
    assert used_of_total("NA   / NA") == (None, None)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (mib, "12 %"), (mib, "-3"), (mib, "1e3"), (mib, "32768 Mi8"), (percent, "101"), (percent, "12 W"),
        (celsius, "12 W"), (milliwatts, "3 %"), (whole, "1.5"), (whole, "-1"), (pci, "GPU-1"),
        (used_of_total, "12"),
    ],
)  # fmt: skip
def test_a_value_that_its_place_can_not_hold_is_unreadable(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(UnreadableError):
        read(text)


def test_a_bus_address_has_one_form() -> None:
    assert pci("00000000:1A:00.0") == pci("1a:00.0") == pci("0000:1A:00") == "0000:1a:00.0"
    assert pci("0000000F:01:00.0") == "000f:01:00.0"
    assert pci("00010000:e1:00.0") == "10000:e1:00.0"
    assert pci("0000:06:00.0 --> SN: MADEUP") == "0000:06:00.0"


def test_a_csv_header_names_its_columns_and_their_units() -> None:
    columns = csv_columns("index, memory.total [MiB], GPU Power (W)")
    assert [(column.name, column.unit) for column in columns] == [
        ("index", None), ("memory.total", "MiB"), ("gpu power", "W")
    ]  # fmt: skip
    assert csv_cells('0,"a, b", c ') == ["0", "a, b", "c"]


def test_a_drawn_table_gives_its_cells_and_no_rules() -> None:
    assert box_cells("| 0  910B | OK  |") == ["0  910B", "OK"]
    assert box_cells("plain") == []
    assert is_rule("+----+====+")
    assert not is_rule("| 0 |")


def test_sections_follow_the_indentation_and_a_cut_last_line_is_left_out() -> None:
    text = (
        "XPU 0000:01:00.0\n    Memory Usage\n        Total : 12 MiB\n"
        "    L3 Usage\n        Total : 3 MiB\n    Cut : 1"
    )
    found = entries(output_of(text).lines)
    assert value_of(found, "Memory Usage", "Total") == "12 MiB"
    assert value_of(found, "l3 usage", "total") == "3 MiB"
    assert value_of(found, "Cut") is None
    assert found[0].path == ("XPU 0000:01:00.0",)
    assert split_entry("PCI Bus: 0000:01:00.0") == ("PCI Bus", "0000:01:00.0")


def test_json_is_found_among_other_lines_and_holds_no_float() -> None:
    found = json_in(output_of('[warn] x\n{"a": 1.50, "b ": [2, NaN]}\nlater\n'))
    assert found is not None
    assert found.value == {"a": "1.50", "b ": ["2", "NaN"]}
    assert [line.text for line in found.before] == ["[warn] x"]
    assert [line.text for line in found.after] == ["later"]
    assert json_in(output_of('{"a": 1')) is None
    assert json_in(output_of("[" * 100_000)) is None


def test_an_output_is_cleaned_and_bounded() -> None:
    output = output_of("\ufeff\x1b[31mred\x1b[0m\r\n\r\nnext")
    assert [(line.number, line.text, line.whole) for line in output.lines] == [
        (1, "red", True),
        (3, "next", False),
    ]
    long = output_of("x" * (LINE_MAX + 1) + "\nshort\n")
    assert [line.text for line in long.lines] == ["short"]
    assert [problem.code for problem in long.problems] == [ProblemCode.TOO_LONG]
    assert output_of("y\n" * TEXT_LIMIT).problems[0].code is ProblemCode.TOO_LONG
