"""Errors as people meet them: one clear sentence with its code on standard error, and an exit status."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard import locale
from steelyard.cli.help_pages import metavar
from steelyard.cli.safe import one_line, visible
from steelyard.model.errors import NotFoundError, RefusedError, SteelyardError, UnavailableError

OK, FAILED, USAGE, REFUSED, NOT_FOUND, NOT_REACHABLE = 0, 1, 2, 3, 4, 5
INTERRUPTED = 130
#: How the framework says that there are too many arguments; it has no class for it.
_EXTRA = re.compile(r"extra argument(?:s|\(s\))? \((.*)\)", re.DOTALL)
_UNREACHABLE = {"server-not-reachable", "server-address-invalid", "server-not-ours"}
#: The server says that it can't, and asking again later changes nothing.
_NEVER = {"exec-not-supported"}
#: A document that another command takes.
_WRONG_DOOR = {"document-is-workload", "document-is-declared"}
_OF_ARGUMENTS = {"argument-invalid", "argument-missing", "argument-conflict", "restore-folder-not-given"}
_USAGE_CODES = {"output-unknown", *_OF_ARGUMENTS, *_WRONG_DOOR}


class ReaderLeftError(Exception):
    """Whoever reads our output has closed it."""


def report(error: SteelyardError, lang: str) -> int:
    """Tells the error; returns the exit status."""
    params = {key: one_line(v) if isinstance(v, str) else v for key, v in error.params.items()}
    if locale.has(error.code):
        sentence = locale.text(error.code, params, lang)
    else:  # a newer server knows more than we do
        sentence = getattr(error, "text", None) or locale.text(error.code, params, lang)
    _write(locale.text("cli.error", {"sentence": "{}"}, lang).replace("{}", one_line(sentence)), error.code)
    place = getattr(error, "place", None)
    if place:
        where = {key: one_line(v) if isinstance(v, str) else v for key, v in place.items()}
        sys.stderr.write("  " + visible(locale.text("cli.place", where, lang)) + "\n")
    for sentence in _more(error, lang):
        sys.stderr.write(f"  - {sentence}\n")
    for reason in _reasons(error):
        known = isinstance(reason, Mapping) and not locale.has(f"reason.{reason.get('code')}")
        shown = reason.get("text") if known else locale.reason_text(reason, lang)
        sys.stderr.write(f"  - {one_line(shown)}\n")
    refusal = getattr(error, "refusal", None)
    if refusal:
        sys.stderr.write(visible(locale.text("cli.refusal-recorded", {"refusal": refusal}, lang)) + "\n")
    return status_of(error)


def status_of(error: SteelyardError) -> int:
    """The exit status for an error."""
    status = getattr(error, "status", None)
    if error.code in _UNREACHABLE:
        return NOT_REACHABLE
    if error.code in _USAGE_CODES:
        return USAGE
    if status == 404 or isinstance(error, NotFoundError):
        return NOT_FOUND
    if status == 422 or isinstance(error, RefusedError) or getattr(error, "refusal", None):
        return REFUSED  # also a document that is wrong: it was turned away, and that is on record
    if error.code in _NEVER:
        return FAILED
    if status == 503 or (isinstance(error, UnavailableError) and error.code.startswith("server-")):
        return NOT_REACHABLE
    return FAILED


def usage(error: Exception, name: str, lang: str) -> int:
    """A wrong option or argument, found by the framework; told in the reader's language."""
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    params: dict[str, Any] = {
        "option": getattr(error, "option_name", None),
        "parameter": _hint(parameter),
        "expected": _expected(parameter),
        "possible": ", ".join(getattr(error, "possibilities", None) or ()) or None,
        "detail": getattr(error, "message", str(error)),
    }
    extra = _EXTRA.search(params["detail"]) if kind == "UsageError" else None
    if extra is not None:
        return usage_error("argument-unexpected", name, lang, extra=one_line(extra[1]))
    code = {
        "NoSuchOption": "no-such-option",
        "MissingParameter": "argument-missing",
        "BadParameter": "argument-invalid",
        "BadOptionUsage": "option-misused",
    }.get(kind, "usage-wrong")
    shown = {key: one_line(value) if isinstance(value, str) else value for key, value in params.items()}
    return usage_error(code, name, lang, **shown)


def usage_error(code: str, name: str, lang: str, /, **params: object) -> int:
    """Tells a wrong use and where to read more."""
    _write(locale.text("cli.error", {"sentence": locale.text(f"cli.wrong.{code}", params, lang)}, lang), code)
    more = f"steelyard {name} --help" if name else "steelyard --help"
    sys.stderr.write(locale.text("cli.wrong.see", {"command": more}, lang) + "\n")
    return USAGE


def _expected(parameter: Any) -> str | None:
    """The form of a value, where it says more than the name; None otherwise."""
    form = metavar(parameter) if parameter is not None else None
    return None if form == _hint(parameter) else form


def _hint(parameter: Any) -> str | None:
    if parameter is None:
        return None
    if parameter.param_type_name == "argument":
        return metavar(parameter)
    return max(parameter.opts, key=len) if parameter.opts else str(parameter.name)


def _reasons(error: SteelyardError) -> Sequence[Any]:
    found = getattr(error, "reasons", ())
    return found if isinstance(found, list | tuple) else ()


def _more(error: SteelyardError, lang: str) -> Iterator[str]:
    """What else is wrong in the document, each with its code."""
    found: Sequence[Any] = getattr(error, "errors", ())
    for fault in found[1:]:
        code, given = str(fault["code"]), fault["params"]
        params = {key: one_line(v) if isinstance(v, str) else v for key, v in given.items()}
        where = f"{fault.get('pointer')}: " if "document" in given else ""  # of several: which
        yield one_line(f"{where}{locale.text(code, params, lang)} [{code}]")


def _write(sentence: str, code: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(visible(f"{sentence} [{code}]") + "\n")
