"""Tables and YAML: the two forms of output that need a library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.cli.safe import one_line, visible

if TYPE_CHECKING:
    from steelyard.cli.session import Column, Session

_WIDE = 100_000


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
    """One line a row on a pipe; on a terminal cells are wrapped to its width."""
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
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for code, _ in columns:
        whole = not terminal or code == "cli.column.id"  # an id in two pieces can't be copied
        table.add_column(session.text(code), overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(_cell(row, key)) for _, key in columns))
    with console.capture() as captured:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _cell(row: Mapping[str, Any], key: str | Callable[[Mapping[str, Any]], object]) -> str:
    value = row.get(key) if isinstance(key, str) else key(row)
    return "–" if value is None or value == "" else one_line(value)
