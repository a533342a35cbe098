"""Answers that show themselves: dictionaries and lists as they are, with a short text and a small HTML table.

A notebook calls `_repr_html_`, a prompt `repr`. Everything that others wrote is escaped; nothing is loaded
from elsewhere. In all else these are a dictionary and a list: as JSON, as YAML, compared, copied, pickled.
"""

from __future__ import annotations

from html import escape
from typing import Any, SupportsIndex

from yaml.representer import Representer, SafeRepresenter

from steelyard.client.columns import NOUNS, Noun
from steelyard.locale import text
from steelyard.locale.plain import columns, one_line, padded

#: Rows that a list shows of itself.
ROWS_OF_TEXT, ROWS_OF_HTML = 30, 100
_WIDEST = 60  # columns of a cell


class Record(dict[str, Any]):
    """One thing: its keys as the API gives them."""

    noun = ""
    lang = "en"

    def __repr__(self) -> str:
        found = NOUNS.get(self.noun)
        if found is None:
            return dict.__repr__(self)
        head = one_line(text(f"notebook.noun.{self.noun}", None, self.lang))
        line = f"<{head} {'  '.join(_brief(found, self, self.lang))}>"
        return "\n".join([line, *_text(found, _below(found, self), self.lang)]) if found.rows else line

    def _repr_html_(self) -> str:
        found = NOUNS.get(self.noun)
        if found is None:
            return f"<pre>{escape(dict.__repr__(self))}</pre>"
        if found.rows:
            head = " ".join(_brief(found, self, self.lang))
            return f"<p>{escape(head)}</p>{_html(found, _below(found, self), self.lang)}"
        pairs = zip(_heads(found, self.lang), _cells(found, self, self.lang), strict=True)
        return _table("".join(f"<tr>{_th(head)}{_td(cell)}</tr>" for head, cell in pairs))


class Table(list[Any]):
    """Several things: a list, which prints as a table."""

    noun = ""
    lang = "en"

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = list.__getitem__(self, index)
        return _marked(Table(found), self.noun, self.lang) if isinstance(index, slice) else found

    def __repr__(self) -> str:
        found = NOUNS.get(self.noun)
        if found is None or not all(isinstance(row, dict) for row in self):
            return list.__repr__(self)
        return "\n".join(_text(found, list(self), self.lang))

    def _repr_html_(self) -> str:
        found = NOUNS.get(self.noun)
        if found is None or not all(isinstance(row, dict) for row in self):
            return f"<pre>{escape(list.__repr__(self))}</pre>"
        return _html(found, list(self), self.lang)


def shown(value: Any, noun: str | None, lang: str) -> Any:
    """The answer, so that it shows itself as what it is; as it is where nothing is known of it."""
    found = NOUNS.get(noun or "")
    if found is None:
        return value
    if isinstance(value, list):
        one = found.one
        rows = [_marked(Record(row), one, lang) if one and isinstance(row, dict) else row for row in value]
        return _marked(Table(rows), noun or "", lang)
    return _marked(Record(value), noun or "", lang) if isinstance(value, dict) else value


def _marked(value: Any, noun: str, lang: str) -> Any:
    value.noun, value.lang = noun, lang
    return value


def _heads(noun: Noun, lang: str) -> list[str]:
    return [text(f"cli.column.{head}", None, lang) for head, _ in noun.columns]


def _cells(noun: Noun, row: Any, lang: str) -> list[str]:
    return [_cell(show, row, lang) for _, show in noun.columns]


def _brief(noun: Noun, row: Any, lang: str) -> list[str]:
    return [cell for show in noun.brief if (cell := _cell(show, row, lang)) != "–"]


def _cell(show: Any, row: Any, lang: str) -> str:
    """A cell never fails: an answer of another release may lack what is asked for."""
    try:
        value = show(row, lang)
    except (AttributeError, KeyError, LookupError, TypeError, ValueError):
        value = None
    return "–" if value is None or value == "" else one_line(value)


def _below(noun: Noun, record: Record) -> list[Any]:
    """The rows that a single answer is about."""
    rows = record.get(noun.rows)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _text(noun: Noun, rows: list[Any], lang: str) -> list[str]:
    heads = _heads(noun, lang)
    cells = [_cells(noun, row, lang) for row in rows[:ROWS_OF_TEXT]]
    widths = [min(max(map(columns, column)), _WIDEST) for column in zip(heads, *cells, strict=True)]
    lines = ["  ".join(map(padded, row, widths)).rstrip() for row in (heads, *cells)]
    return [*lines, *_rest(len(rows), ROWS_OF_TEXT, lang)]


def _html(noun: Noun, rows: list[Any], lang: str) -> str:
    head = "".join(map(_th, _heads(noun, lang)))
    cells = (_cells(noun, row, lang) for row in rows[:ROWS_OF_HTML])
    body = "".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in cells)
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(len(rows), ROWS_OF_HTML, lang))
    return _table(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>") + rest


def _rest(count: int, most: int, lang: str) -> list[str]:
    """A line on what is left out, or that there is nothing."""
    if count > most:
        return [text("notebook.more", {"count": count - most}, lang)]
    return [] if count else [text("notebook.none", None, lang)]


def _th(cell: str) -> str:
    return f'<th style="text-align:left">{escape(cell)}</th>'


def _td(cell: str) -> str:
    return f'<td style="text-align:left">{escape(cell)}</td>'


def _table(inside: str) -> str:
    return f'<table class="steelyard">{inside}</table>'


for _representer in (SafeRepresenter, Representer):
    _representer.add_representer(Record, SafeRepresenter.represent_dict)
    _representer.add_representer(Table, SafeRepresenter.represent_list)
