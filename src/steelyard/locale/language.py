"""Which language a reader gets: chosen by hand, by the environment, or asked for by a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from steelyard.locale.catalogue import LANGUAGES

_RANGE = re.compile(r"([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9-]{1,40})?\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?))?")
_MAX_HEADER = 1000


def match(name: str | None) -> str | None:
    """The language of a name such as `zh`, `zh_CN.UTF-8` or `en-GB`; None for any other."""
    if not name:
        return None
    first = re.split(r"[-_.@]", name.strip().lower(), maxsplit=1)[0]
    return first if first in LANGUAGES else None


def choose(arguments: Sequence[str], environ: Mapping[str, str], configured: str | None = None) -> str:
    """The command line's language.

    The first that is given and known: `--lang`, STEELYARD_LANG, the configuration, the locale of the
    environment (LC_ALL, LC_MESSAGES, LANG). English otherwise. Arguments after `--` are not looked at.
    """
    candidates = [_argument(arguments), environ.get("STEELYARD_LANG"), configured]
    for candidate in candidates:
        if found := match(candidate):
            return found
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environ.get(name):
            return match(environ[name]) or "en"
    return "en"


def _argument(arguments: Sequence[str]) -> str | None:
    for index, argument in enumerate(arguments):
        if argument == "--":
            return None
        if argument.startswith("--lang="):
            return argument.removeprefix("--lang=")
        if argument == "--lang" and index + 1 < len(arguments):
            return arguments[index + 1]
    return None


def negotiate(accept_language: str | None) -> str:
    """The best language for an `Accept-Language` header (RFC 9110, 12.5.4); English when none fits."""
    best, weight = "en", 0.0
    for part in (accept_language or "")[:_MAX_HEADER].split(","):
        matched = _RANGE.fullmatch(part.strip())
        if matched is None:
            continue
        asked = "en" if matched[1] == "*" else match(matched[1])
        quality = float(matched[2]) if matched[2] else 1.0
        if asked is not None and quality > weight:
            best, weight = asked, quality
    return best
