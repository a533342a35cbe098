"""Help pages, in the reader's language, from the table and the parameters of a command.

Drawn here and not by the framework: its headings exist in English only, and it counts characters
where a Chinese one takes two columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from steelyard.cli import table
from steelyard.locale import has, text

WIDTH = 100
_INDENT = 2


def root_help(lang: str) -> str:
    """All commands by section."""
    parts = [text("cli.root.usage", None, lang), "", text("cli.root.help", None, lang)]
    for section, commands in table.SECTIONS.items():
        names: dict[str, str] = {}
        for name in commands:
            first = name.split()[0]
            key = f"cli.{first}.group" if first in table.GROUPS else table.text_code(name, "help")
            names.setdefault(first, text(key, None, lang))
        parts += ["", text(f"cli.section.{section}", None, lang), *_pairs(names.items(), 14)]
    shared = {name: text(f"cli.param.{key}", None, lang) for name, key in _ROOT_OPTIONS.items()}
    parts += ["", text("cli.heading.options", None, lang), *_pairs(shared.items(), 26)]
    parts += ["", *_wrap(text("cli.root.more", None, lang), WIDTH)]
    return "\n".join(parts)


_ROOT_OPTIONS = {
    "-o, --output FORMAT": "output",
    "--lang LANGUAGE": "lang",
    "--url URL": "url",
    "-V, --version": "version",
    "-h, --help": "help",
}


def group_help(group: str, lang: str) -> str:
    """The commands of a group."""
    names = [name for name in table.COMMANDS if name.startswith(f"{group} ")]
    pairs = [(name.split()[1], text(table.text_code(name, "help"), None, lang)) for name in names]
    usage = text("cli.group.usage", {"group": group}, lang)
    return "\n".join([usage, "", text(f"cli.{group}.group", None, lang), "", *_pairs(pairs, 14)])


def command_help(name: str, parameters: Iterable[Any], lang: str) -> str:
    """One command: usage, what it does, arguments, options. `parameters` are the framework's."""
    arguments, options = [], []
    for parameter in parameters:
        if getattr(parameter, "hidden", False):
            continue
        shown = text(parameter_code(name, parameter.name), None, lang)
        if parameter.param_type_name == "argument":
            arguments.append((metavar(parameter), shown, parameter.required))
        else:
            options.append((_option(parameter), shown))
    usage = [f"steelyard {name}", text("cli.heading.usage-options", None, lang)]
    for label, _, required in arguments:
        usage.append(label if required or label.startswith("[") else f"[{label}]")
    parts = [text("cli.heading.usage", {"usage": " ".join(usage)}, lang), ""]
    parts += _wrap(text(table.text_code(name, "help"), None, lang), WIDTH)
    if has(more := table.text_code(name, "more")):
        parts += ["", *(row for line in text(more, None, lang).split("\n") for row in _wrap(line, WIDTH))]
    if arguments:
        pairs = [(label, shown) for label, shown, _ in arguments]
        parts += ["", text("cli.heading.arguments", None, lang), *_pairs(pairs, 26)]
    options.append(("-h, --help", text("cli.param.help", None, lang)))
    parts += ["", text("cli.heading.options", None, lang), *_pairs(options, 26)]
    return "\n".join(parts)


def parameter_code(name: str, parameter: str) -> str:
    """The code of a parameter's text: the command's own, else the one that all share."""
    own = table.text_code(name, parameter)
    return own if has(own) else f"cli.param.{parameter}"


def metavar(parameter: Any) -> str:
    """What stands for the parameter's value."""
    shown = str(parameter.metavar or parameter.name.upper().replace("_", "-"))
    return f"{shown}..." if parameter.nargs == -1 and "..." not in shown else shown


def _option(parameter: Any) -> str:
    names = sorted([*parameter.opts, *parameter.secondary_opts], key=lambda name: (len(name) > 2, name))
    shown = ", ".join(names)
    return shown if parameter.is_flag else f"{shown} {metavar(parameter)}"


def _pairs(pairs: Iterable[tuple[str, str]], column: int) -> list[str]:
    """Two columns; a long left cell gets a line of its own."""
    lines = []
    for left, right in pairs:
        wrapped = _wrap(right, WIDTH - column - _INDENT) or [""]
        head = " " * _INDENT + left
        if _columns(left) + 2 > column:
            lines.append(head)
        else:
            lines.append(head + " " * (column - _columns(left)) + wrapped.pop(0))
        lines += [" " * (column + _INDENT) + rest for rest in wrapped]
    return [line.rstrip() for line in lines]


def _columns(shown: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in shown)


def _wrap(shown: str, width: int) -> list[str]:
    """Lines of at most `width` columns: between words, and between Chinese characters."""
    lines, line = [], ""
    for word in _words(shown):
        if line and _columns(line + word.rstrip()) > width:
            lines.append(line.rstrip())
            line = word.lstrip()
        else:
            line += word
    return [*lines, line.rstrip()] if line.strip() else lines


def _words(shown: str) -> list[str]:
    words, word = [], ""
    for character in shown:
        wide = unicodedata.east_asian_width(character) in "WF"
        if wide and not unicodedata.category(character).startswith("P"):
            words += [word] if word else []
            word = character
        else:
            word += character
            if character == " " or wide:
                words.append(word)
                word = ""
    return [*words, word] if word else words
