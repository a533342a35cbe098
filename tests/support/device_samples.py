"""The sample texts of vendor tools, each with what was asked of which tool and what it was expected to hold.

`tests/data/devices/samples/` holds the texts, `tests/data/devices/expected/VENDOR.yaml` the expectations. A
sample may hold several outputs, separated by lines that start with `# ---`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from steelyard.devices.reading import Reading

DATA = Path(__file__).parents[1] / "data" / "devices"
SAMPLES = DATA / "samples"
SEPARATOR = "# ---"


@dataclass(frozen=True)
class Part:
    """One output within a sample, and what it was expected to hold."""

    sample: str
    number: int
    tool: str
    layout: str | None  # what was asked of the tool; None: told from the text
    text: str
    expected: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.sample}:{self.number}"


def parts_of(text: str) -> list[str]:
    """The outputs of a sample: what stands between separators. Before the first one there is nothing."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if line.startswith(SEPARATOR):
            parts.append([])
        else:
            parts[-1].append(line)
    return ["".join(part) for part in parts if part]


def expectations() -> dict[str, dict[str, Any]]:
    """Sample → its row, over all vendors. A sample stands in one file only."""
    rows: dict[str, dict[str, Any]] = {}
    for path in sorted((DATA / "expected").glob("*.yaml")):
        for sample, row in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            assert sample not in rows, sample
            rows[sample] = row
    return rows


def all_parts() -> list[Part]:
    """Every output of every sample."""
    found = []
    for sample, row in expectations().items():
        texts = parts_of((SAMPLES / sample).read_text(encoding="utf-8"))
        assert len(texts) == len(row["parts"]), f"{sample}: {len(texts)} outputs"
        for number, (text, expected) in enumerate(zip(texts, row["parts"], strict=True), 1):
            tool = expected.get("tool", row.get("tool"))
            found.append(Part(sample, number, tool, expected.get("asked"), text, expected))
    return found


def identity(reading: Reading) -> tuple[object, ...]:
    """By which a reading is found again in another output of the same devices."""
    numbers = (reading.index, reading.host_index, reading.module, reading.other.get("chip"))
    return *numbers, reading.pci, reading.uuid, reading.serial
