"""The entry of the command line: which language, which command, and a clean end whatever happens."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from steelyard import __version__, locale
from steelyard.cli import failure, help_pages, table
from steelyard.cli.config import config_path, read_config
from steelyard.model.errors import InvalidError, SteelyardError, UnavailableError

if TYPE_CHECKING:
    from steelyard.cli.session import Connect

#: Options that may stand before the command, too; all take a value.
_LEADING = ("--lang", "--url", "-o", "--output")
#: What the scripts of `completion` call.
COMPLETE = "__complete"
#: How writing fails, beside a reader that left.
_OF_OUTPUT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


@dataclass(slots=True)
class Line:
    """A command line taken apart."""

    name: str = ""  # of the command, its group, or empty
    rest: list[str] = field(default_factory=list)
    wants: str | None = None  # help | version
    wrong: tuple[str, dict[str, str | None]] | None = None


def run() -> None:
    """The installed program."""
    sys.exit(main(sys.argv[1:]))


def main(
    arguments: Sequence[str], environ: Mapping[str, str] = os.environ, connect: Connect | None = None
) -> int:
    """Runs one command; the exit status. `connect` is given by tests."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (as long as the program)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _main(list(arguments), environ, connect)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return failure.INTERRUPTED
    except (BrokenPipeError, failure.ReaderLeftError):
        _write_nowhere()
        return failure.OK
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        _write_nowhere()
        lang = locale.choose(list(arguments), environ)
        return failure.report(UnavailableError("output-failed", reason=error.strerror or str(error)), lang)
    return status


def _main(arguments: list[str], environ: Mapping[str, str], connect: Connect | None) -> int:
    if arguments[:1] == [COMPLETE]:
        completed: int = table.load("steelyard.cli.candidates:run")(arguments[1:], environ)
        return completed
    try:
        lang = _language(arguments, environ)
        line = split(arguments)
        if any("\ud800" <= character <= "\udfff" for argument in arguments for character in argument):
            raise InvalidError("argument-invalid", name="…", expected="UTF-8")
    except SteelyardError as error:
        return failure.report(error, locale.choose(arguments, environ))
    if line.wrong is not None:
        code, params = line.wrong
        return failure.usage_error(code, line.name, lang, **params)
    if line.wants == "version":
        print(f"steelyard {__version__}")
        return failure.OK
    if line.wants == "help":
        print(help_pages.group_help(line.name, lang) if line.name else help_pages.root_help(lang))
        return failure.OK
    function = table.load(table.COMMANDS[line.name])
    build, invoke = table.load("steelyard.cli.command:build"), table.load("steelyard.cli.command:invoke")
    status: int = invoke(build(line.name, function, lang, environ, connect), line.rest, lang)
    return status


def split(arguments: list[str]) -> Line:
    """Finds the command; options before it are moved behind it. `help NAME` is `NAME --help`."""
    ahead: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-h", "--help"):
            return Line(wants="help")
        if option in ("-V", "--version"):
            return Line(wants="version")
        if option in _LEADING and rest:
            ahead += [option, rest.pop(0)]
        elif option.partition("=")[0] in _LEADING and "=" in option:
            ahead.append(option)
        else:
            return Line(wrong=("no-such-option", {"option": option, "possible": None}))
    if not rest or rest == ["help"]:
        return Line(wants="help")
    if rest[0] == "help":
        rest = [*rest[1:], "--help"]
    first = rest.pop(0)
    if first in table.GROUPS:
        return _grouped(first, rest, ahead)
    if first not in table.COMMANDS:
        near = get_close_matches(first, [*table.COMMANDS, *table.GROUPS], 1)
        return Line(wrong=("no-such-command", {"name": first[:60], "near": near[0] if near else None}))
    if rest and f"{first} {rest[0]}" in table.COMMANDS:
        return Line(f"{first} {rest[0]}", [*ahead, *rest[1:]])
    return Line(first, [*ahead, *rest])


def _grouped(group: str, rest: list[str], ahead: list[str]) -> Line:
    if not rest or rest[0] in ("-h", "--help", "help"):
        return Line(group, wants="help")
    name = f"{group} {rest[0]}"
    if name in table.COMMANDS:
        return Line(name, [*ahead, *rest[1:]])
    known = [command.split()[1] for command in table.COMMANDS if command.startswith(f"{group} ")]
    near = get_close_matches(rest[0], known, 1)
    wrong = {"name": name[:60], "near": f"{group} {near[0]}" if near else None}
    return Line(group, wrong=("no-such-command", wrong))


def _language(arguments: list[str], environ: Mapping[str, str]) -> str:
    asked = _asked_language(arguments)
    if asked is not None and locale.choose(["--lang", asked], {}) != asked:
        raise InvalidError("argument-invalid", name="--lang", expected="|".join(locale.LANGUAGES))
    configured = None
    if asked is None and not environ.get("STEELYARD_LANG"):
        configured = read_config(config_path(environ)).get("lang")
    return locale.choose(arguments, environ, configured)


def _asked_language(arguments: list[str]) -> str | None:
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for index, argument in enumerate(before):
        if argument.startswith("--lang="):
            return argument.partition("=")[2]
        if argument == "--lang" and index + 1 < len(before):
            return before[index + 1]
    return None


def _write_nowhere() -> None:
    """What is still to be written is lost: no complaint of it when the program ends."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    run()
