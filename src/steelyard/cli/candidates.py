"""What may stand next on a command line: asked by the scripts of `completion`, answered line by line.

Taken from the table of commands and the framework's parameters, so that it can't lag behind them. Names come
from the server, which has one second; without it there are none, and never a message.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard import locale
from steelyard.cli import help_pages, table
from steelyard.cli.session import OUTPUTS, Session
from steelyard.model.errors import SteelyardError

#: Exit status: words only, or files as well.
WORDS, FILES = 0, 3
SECONDS = 1.0
_MOST = 100
_FOLDERS = frozenset({"FILE", "FOLDER", "DIR"})
#: A name is put on a command line as it is: nothing that a shell would read in its own way.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_LEADING = {"--lang": locale.LANGUAGES, "--url": (), "-o": OUTPUTS, "--output": OUTPUTS}
#: Command → which workloads it can do something with; the others take any.
_PHASES = {
    "cancel": "live", "scale": "live", "exec": "running", "attach": "running", "hold": "queued",
    "release": "held", "retry": "finished",
}  # fmt: skip
#: Parameter → the kind of declared objects that it names.
_OBJECTS = {
    "project": "Project", "namespace": "Namespace", "queue": "Queue", "cluster": "Cluster", "pool": "Pool",
    "template": "Template", "priority": "PriorityClass",
}  # fmt: skip
#: Value in place of the name → the closed list, as `module:name`.
_LISTS = {
    "PHASE": "steelyard.model.lifecycle:Phase",
    "OUTCOME": "steelyard.model.lifecycle:Outcome",
    "CLASS": "steelyard.model.resources:DeviceClass",
    "STAGE": "steelyard.model.failures:Stage",
    "GROUP": "steelyard.model.failures:Group",
    "ORDER": "steelyard.cli.failures:Order",
}
_KINDS = "steelyard.model.workloads:WorkloadKind"
_DECLARED = "steelyard.cli.documents:KINDS"
_MORE = {("list", "PHASE"): ("live",)}


@dataclass(slots=True)
class _Line:
    """A command line up to the word that is being written: its command, what was given, what is open."""

    name: str = ""
    arguments: list[str] = field(default_factory=list)
    option: Any = None  # the parameter whose value comes next
    url: str | None = None  # of the server that is to be asked
    raw: bool = False  # after `--`: somebody else's words


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """`SHELL WORD...`: prints what may stand in place of the last word; the status says whether files may."""
    shell, *words = [*arguments, ""] if len(arguments) < 2 else arguments
    try:
        lang = locale.choose(words, environ)
        found, files = candidates(_joined(words) if shell == "bash" else words, lang, environ)
    except (SteelyardError, OSError, ValueError):
        return WORDS
    for value, told in found:
        sys.stdout.write(f"{value}\t{told}\n" if shell in ("zsh", "fish") and told else f"{value}\n")
    return FILES if files else WORDS


def candidates(
    words: Sequence[str], lang: str, environ: Mapping[str, str]
) -> tuple[list[tuple[str, str]], bool]:
    """(word, what it is) of all that may stand in place of the last word, and whether a file may."""
    *before, current = words
    line = _read(before)
    if line.raw:
        return [], True
    if line.option is None and current.startswith("--") and "=" in current:
        option, _, begun = current.partition("=")
        line.option = _option(line.name, option)
        offered, files = _values(line, begun, lang, environ)
        return [(f"{option}={value}", told) for value, told in _fitting(offered, begun)], files
    offered, files = _values(line, current, lang, environ)
    return list(_fitting(offered, current)), files


def _fitting(offered: Iterable[tuple[str, str]], begun: str) -> Iterable[tuple[str, str]]:
    seen = set()
    for value, told in offered:
        if value.startswith(begun) and value not in seen:
            seen.add(value)
            yield value, told


def _joined(words: Sequence[str]) -> list[str]:
    """bash parts words at `=`, and lets us complete what stands behind it."""
    kept = [word for word in words[:-1] if word != "="]
    return [*kept, "" if words[-1] == "=" else words[-1]]


# --- what stands there already ----------------------------------------------------------------------


def _read(words: Sequence[str]) -> _Line:
    line = _Line()
    for word in words:
        if line.raw:
            break
        if line.option is not None:
            line.url = word if "--url" in (line.option, *getattr(line.option, "opts", ())) else line.url
            line.option = None
        elif word.startswith("--url="):
            line.url = word.partition("=")[2]
        elif word == "--":
            line.raw = True
        elif word.startswith("-"):
            line.option = _option(line.name, word) if "=" not in word else None
        elif not line.arguments and f"{line.name} {word}".strip() in {*table.COMMANDS, *table.GROUPS}:
            line.name = f"{line.name} {word}".strip()
        else:
            line.arguments.append(word)
    return line


def _option(name: str, word: str) -> Any:
    """The parameter of an option that takes a value, else None. Before a command: the option itself."""
    if name not in table.COMMANDS:
        return word if word in _LEADING else None
    for parameter in _parameters(name):
        if word in parameter.opts and not parameter.is_flag and parameter.param_type_name == "option":
            return parameter
    return None


def _parameters(name: str) -> list[Any]:
    build: Callable[..., Any] = table.load("steelyard.cli.command:build")
    command = build(name, table.load(table.COMMANDS[name]), "en", {})
    return [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]


# --- what may follow --------------------------------------------------------------------------------


def _values(
    line: _Line, begun: str, lang: str, environ: Mapping[str, str]
) -> tuple[list[tuple[str, str]], bool]:
    if isinstance(line.option, str):
        return [(value, "") for value in _LEADING[line.option]], False
    if line.option is not None:
        return _of_parameter(line, line.option, begun, lang, environ)
    if begun.startswith("-"):
        return _options(line.name, lang), False
    offered = [] if line.arguments else _commands(line.name, lang)
    if line.name not in table.COMMANDS:
        return offered, False
    taken = [one for one in _parameters(line.name) if one.param_type_name == "argument"]
    index = len(line.arguments)
    if index >= len(taken):
        return offered, False
    more, files = _of_parameter(line, taken[index], begun, lang, environ)
    return offered + more, files


def _commands(name: str, lang: str) -> list[tuple[str, str]]:
    """The commands, or those of a group."""
    if not name:
        firsts = dict.fromkeys(command.split()[0] for command in table.COMMANDS)
        return [(first, _help(first, lang)) for first in firsts]
    below = [command for command in table.COMMANDS if command.startswith(f"{name} ")]
    return [(command.split()[1], _help(command, lang)) for command in below]


def _help(name: str, lang: str) -> str:
    code = f"cli.{name}.group" if name in table.GROUPS else table.text_code(name, "help")
    return locale.text(code, None, lang)


def _options(name: str, lang: str) -> list[tuple[str, str]]:
    if name not in table.COMMANDS:
        names = {"-o": "output", "--output": "output", "--lang": "lang", "--url": "url",
                 "--version": "version", "--help": "help"}  # fmt: skip
        return [(option, locale.text(f"cli.param.{key}", None, lang)) for option, key in names.items()]
    found = [("--help", locale.text("cli.param.help", None, lang))]
    for parameter in _parameters(name):
        if parameter.param_type_name == "option":
            told = locale.text(help_pages.parameter_code(name, parameter.name), None, lang)
            found += [(option, told) for option in (*parameter.opts, *parameter.secondary_opts)]
    return sorted(found, key=lambda pair: (not pair[0].startswith("--"), pair[0]))


def _of_parameter(
    line: _Line, parameter: Any, begun: str, lang: str, environ: Mapping[str, str]
) -> tuple[list[tuple[str, str]], bool]:
    label = help_pages.metavar(parameter).strip("[].").partition(" ")[0]
    if label in _FOLDERS:
        return [], True
    if "|" in label:
        return [(value, "") for value in label.split("|")], False
    if (known := _closed(line.name, parameter, label)) is not None:
        small = begun[:1].islower()  # a kind is known in small letters, too
        return [(value.lower() if small else value, "") for value in known], False
    ask = _question(line, parameter.name, label, begun)
    names = _asked(ask, Session(lang, environ, url=line.url)) if ask else []
    return [(name, "") for name in names], False


def _closed(name: str, parameter: Any, label: str) -> list[str] | None:
    if label == "KIND":
        kinds = table.load(_DECLARED if name in ("get", "delete") else _KINDS)
        return [str(kind) for kind in kinds]
    if label in _LISTS and parameter.name not in _OBJECTS:
        return [*map(str, table.load(_LISTS[label])), *_MORE.get((name, label), ())]
    return ["bash", "zsh", "fish"] if label == "SHELL" else None


# --- what only the server knows ---------------------------------------------------------------------

Ask = Callable[[Any], Iterable[str]]


def _question(line: _Line, parameter: str, label: str, begun: str) -> Ask | None:
    if label == "WORKLOAD":
        wanted = {"phase": _PHASES.get(line.name), "q": None if begun.startswith("wl_") else begun or None}
        key = "id" if begun.startswith("wl_") else "name"
        return lambda client: [str(row[key]) for row in client.workloads(_MOST, **wanted)]
    if label == "DEVICE":
        return lambda client: [str(one["id"]) for node in client.inventory() for one in node["devices"]]
    if label == "RELEASE":
        return lambda client: [str(row["id"]) for row in client.releases(_MOST)]
    if label == "NAME" and line.name in ("get", "delete") and line.arguments:
        kind = line.arguments[0]
        return lambda client: _names(client, table.load("steelyard.cli.objects:known_kind")(kind))
    if parameter in _OBJECTS:
        return lambda client: _names(client, _OBJECTS[parameter])
    return None


def _names(client: Any, kind: str) -> list[str]:
    return [str(one["metadata"]["name"]) for one in client.objects(kind)]


def _asked(ask: Ask, session: Session) -> list[str]:
    """The answer, if it comes in time; a thread that waits for it ends with the program."""
    found: list[str] = []

    def act() -> None:
        try:
            connect = table.load("steelyard.cli.connection:connect")
            found.extend(ask(connect(session)))
        except (SteelyardError, OSError, ValueError, KeyError, TypeError):
            return  # whoever presses a key wants no message

    thread = threading.Thread(target=act, name="candidates", daemon=True)
    thread.start()
    thread.join(SECONDS)
    return [name for name in found if _SAFE.fullmatch(name)]
