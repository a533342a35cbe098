"""Writes the table of families of docs/en/devices.md and docs/zh/devices.md.

The rows come from the catalogue (`steelyard.devices`) and from the samples' marks (tests/data/devices), so
the pages say what can be read and how far that goes. Only what stands between the two marks is replaced.
`--check` writes nothing and fails where a page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import yaml

from steelyard.devices.catalogue import Family, load_catalogue
from steelyard.devices.facts import load_facts
from tools.tables import ROOT, Table, main

DATA = ROOT / "tests" / "data" / "devices"
BEGIN = "<!-- table of families: written by tools/device_table.py -->"
END = "<!-- end of the table of families -->"
NOTHING = "–"
_BEST_FIRST = "ABCMS"
_HEADINGS = {
    "en": ("family", "class", "vendor", "layouts that are read (best mark of a sample)", "shared or cut by"),
    "zh": ("系列", "类别", "厂商", "能读取的输出格式（其样本的最高标记）", "共享或切分方式"),
}
_SHARING = ("partition", "share-memory", "share-time")


def marks() -> dict[tuple[str, str], str]:
    """(tool, layout) → the best mark of a sample in it. A sample with two marks counts by the worse."""
    of_sample = yaml.safe_load((DATA / "marks.yaml").read_text(encoding="utf-8"))["samples"]
    best: dict[tuple[str, str], str] = {}
    for path in sorted((DATA / "expected").glob("*.yaml")):
        for sample, row in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            mark = max(of_sample[sample].split(), key=_BEST_FIRST.index)
            for part in row["parts"]:
                key = (part.get("tool", row.get("tool")), part.get("layout"))
                best[key] = min(best.get(key, mark), mark, key=_BEST_FIRST.index)
    return best


def render(lang: str) -> str:
    """The table as Markdown."""
    heads = _HEADINGS[lang]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    best = marks()
    for family in load_catalogue().families:
        lines.append("| " + " | ".join(_cells(family, best, lang)) + " |")
    return "\n".join(lines)


def _cells(family: Family, best: dict[tuple[str, str], str], lang: str) -> Iterator[str]:
    facts = load_facts()
    yield f"`{family.name}`"
    yield f"`{family.device_class.value}`"
    yield family.vendor_zh if lang == "zh" else family.vendor_en
    tools: dict[str, list[str]] = {}
    for layout in facts.layouts:
        if layout.family == family.name:
            mark = best.get((layout.tool, layout.name), NOTHING)
            tools.setdefault(layout.tool, []).append(f"{layout.name} ({mark})")
    yield "; ".join(f"`{tool}`: {', '.join(names)}" for tool, names in tools.items()) or NOTHING
    modes = [way.mode for word in _SHARING for way in facts.can(family.name, word)]
    yield ", ".join(dict.fromkeys(modes)) or NOTHING


TABLE = Table("devices", BEGIN, END, render)


if __name__ == "__main__":
    sys.exit(main(TABLE, __doc__))
