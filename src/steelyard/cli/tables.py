"""Tables and YAML: the two forms of output that need a library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.cli.safe import one_line, visible

if TYPE_CHECKING:
    from steelyard.cli.session import Column, Session

_WIDE = 100_000
_GAP, _LEAST = 2, 5
_ID = "cli.column.id"  # in two pieces it can't be copied


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Values are written out each time."""
        return True


def to_yaml(data: Any) -> str:
    """YAML; a list of documents (with kind and metadata) as a stream of them."""
    documents = data if _are_documents(data) else [data]
    text = _dumped(documents, letters=True)
    return text if visible(text) == text else _dumped(documents, letters=False)


def _dumped(documents: list[Any], letters: bool) -> str:
    """`letters` False: ASCII with escapes, for texts that a terminal would obey."""
    style: dict[str, Any] = {"sort_keys": False, "default_flow_style": False, "width": _WIDE}
    text: str = yaml.dump_all(documents, Dumper=_Dumper, allow_unicode=letters, **style)
    return text


def _are_documents(data: Any) -> bool:
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(item, dict) and "kind" in item and "metadata" in item for item in data)
    )


def draw(session: Session, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a row on a pipe; on a terminal cells are wrapped to its width, and where that is too narrow
    for the columns there is a line for each cell instead."""
    terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout,
        width=None if terminal else _WIDE,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=session.environ.get("NO_COLOR") is not None,
        force_terminal=terminal,
    )
    heads = [session.text(code) for code, _ in columns]
    cells = [[_cell(row, key) for _, key in columns] for row in rows]
    whole = [not terminal or code == _ID for code, _ in columns]
    if terminal and _needed(heads, cells, whole) > console.width:
        sys.stdout.write(_listed(heads, cells))
        return
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for head, in_one_piece in zip(heads, whole, strict=True):
        table.add_column(head, overflow="fold", no_wrap=in_one_piece)
    for row in cells:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _needed(heads: Sequence[str], cells: Sequence[Sequence[str]], whole: Sequence[bool]) -> int:
    """The least width at which the columns can be read: folded ones keep a word's beginning."""
    widest = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    kept = [width if one else min(width, _LEAST) for width, one in zip(widest, whole, strict=True)]
    return sum(kept) + _GAP * (len(kept) - 1)


def _listed(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A line a cell, an empty line between rows; the terminal breaks what is long."""
    blocks = ("\n".join(f"{head}: {cell}" for head, cell in zip(heads, row, strict=True)) for row in cells)
    return "\n\n".join(blocks) + "\n" if cells else "  ".join(heads) + "\n"


def _cell(row: Mapping[str, Any], key: str | Callable[[Mapping[str, Any]], object]) -> str:
    value = row.get(key) if isinstance(key, str) else key(row)
    return "–" if value is None or value == "" else one_line(value)
