"""The tables of texts: JSON files in `texts/`, each read when one of its codes is first asked for.

A code is `FILE.KEY` (`cli.list.help` is the key `list.help` of `texts/cli.json`); a code without a
dot is an error's and stands in `texts/error.json`. Each entry holds every language, so that the
translations of a sentence are read and changed together.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

#: English is what is shown where a reader's language is not here.
LANGUAGES = ("en", "zh")

_FOLDER = Path(__file__).parent / "texts"
Entry = dict[str, str]


@cache
def table(name: str) -> dict[str, Entry]:
    """The entries of a file; empty when there is no such file."""
    path = _FOLDER / f"{name}.json"
    if not name.isidentifier() or not path.is_file():
        return {}
    entries: dict[str, Entry] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def entry(code: str) -> Entry | None:
    """The translations of a code, or None."""
    name, dot, key = code.partition(".")
    return table(name).get(key) if dot else table("error").get(code)


def template(code: str, lang: str) -> str | None:
    """The sentence of a code before its parameters are filled in, or None."""
    found = entry(code)
    return None if found is None else found.get(lang, found.get("en"))


def has(code: str) -> bool:
    """Whether there is a text for the code."""
    return entry(code) is not None


def codes() -> list[str]:
    """Every code there is a text for, sorted."""
    found = []
    for path in _FOLDER.glob("*.json"):
        prefix = "" if path.stem == "error" else f"{path.stem}."
        found += [prefix + key for key in table(path.stem)]
    return sorted(found)


def word(kind: str, value: str | None, lang: str) -> str:
    """A value of a closed list for people: `word("phase", "queued", "zh")`. Itself where it is not known."""
    if value is None:
        return "–"
    return template(f"word.{kind}.{value}", lang) or value
