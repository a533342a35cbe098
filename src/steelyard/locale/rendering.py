"""Filling a template: parameters are formatted here, at the last moment, in the reader's language.

`{name}` is put in as it is; `{name:quantity}` in the unit of the parameter `resource`; `{name:amount}`
likewise, with what it is a quantity of; `{name:duration}` and `{name:time}` from µs, `{name:instant}` with
its part of the second; `{name:name}` without the kind before the slash. Any other word after the colon is
a closed list: `{phase:phase}`; several of its values may be given, with commas between them.
What stands between `[[` and `]]` is left out when one of its parameters is missing or null.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TypeAlias

from steelyard.locale import catalogue
from steelyard.model.units import SECOND, format_duration, format_quantity

Value: TypeAlias = object
Params: TypeAlias = Mapping[str, Value]

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)(?::([a-z][a-z-]*))?\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_MAX_VALUE = 300
#: Accelerators first, as people ask.
CLASS_ORDER = ("gpu", "npu", "other", "cpu", "memory")


def fill(template: str, params: Params, lang: str) -> str:
    """The sentence. Never fails: what is not given is shown as a dash."""

    def optional(matched: re.Match[str]) -> str:
        needed = PLACEHOLDER.findall(matched[1])
        return matched[1] if all(params.get(name) is not None for name, _ in needed) else ""

    def value(matched: re.Match[str]) -> str:
        return _shown(matched[2], params.get(matched[1]), params, lang)

    return PLACEHOLDER.sub(value, _OPTIONAL.sub(optional, template))


def placeholders(template: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """(always needed, needed only if present) as (name, format) pairs."""
    inside = {pair for part in _OPTIONAL.findall(template) for pair in PLACEHOLDER.findall(part)}
    return set(PLACEHOLDER.findall(_OPTIONAL.sub("", template))), inside


def amount(resource: str | None, quantity: int, lang: str) -> str:
    """A quantity with what it is of: `2 GPU`, `512 MiB of memory`."""
    shown = format_quantity(resource or "other", quantity)
    template = catalogue.template(f"word.amount.{resource}", lang) or catalogue.template(
        "word.amount.other", lang
    )
    return (template or "{n}").replace("{n}", shown)


def amounts(quantities: Mapping[str, int] | None, lang: str) -> str:
    """`2 GPU, 4 CPU, 8 GiB of memory`; a dash where nothing is known."""
    if not quantities:
        return "–"
    known = sorted(quantities.items(), key=lambda item: (class_rank(item[0]), item[0]))
    comma = catalogue.template("reason.comma", lang) or ", "
    return comma.join(amount(name, quantity, lang) for name, quantity in known)


def class_rank(name: str) -> int:
    """The place of a class where several stand together."""
    return CLASS_ORDER.index(name) if name in CLASS_ORDER else len(CLASS_ORDER)


def format_time(micros: int | None) -> str:
    """`2026-03-01 08:00:00 UTC`; a dash where it is not known."""
    if micros is None:
        return "–"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(micros // SECOND))
    except (OverflowError, OSError, ValueError):
        return f"{micros} µs"


def format_instant(micros: int) -> str:
    """`2026-03-01 08:00:00.25 UTC`: exact, where two are compared that may lie in one second."""
    fraction = f"{micros % SECOND:06}".rstrip("0")
    return format_time(micros).replace(" UTC", f".{fraction} UTC" if fraction else " UTC")


def _shown(form: str, value: Value, params: Params, lang: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(form, value, params, lang)
    plain = str(value)
    if form == "name":
        plain = plain.partition("/")[2] or plain
    elif form:
        words = [catalogue.word(form, one, lang) for one in plain.split(", ")]
        plain = ("、" if lang == "zh" else ", ").join(words)
    return plain if len(plain) <= _MAX_VALUE else f"{plain[:_MAX_VALUE]}…"


def _number(form: str, value: int, params: Params, lang: str) -> str:
    resource = params.get("resource")
    if form == "quantity":
        return format_quantity(str(resource), value)
    if form == "amount":
        return amount(str(resource) if resource is not None else None, value, lang)
    if form == "duration":
        return format_duration(value)
    if form == "time":
        return format_time(value)
    if form == "instant":
        return format_instant(value)
    return str(value)
