"""One reader's language and clock: every sentence, word, amount and instant of a page comes from here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from steelyard.locale import (
    error_text,
    factor_text,
    has,
    pointer_text,
    reason_text,
    remedy_text,
    text,
    verdict_cause,
    word,
)
from steelyard.locale.rendering import amount
from steelyard.model.reasons import Reason
from steelyard.model.units import format_duration, format_quantity
from steelyard.reports.drawing.markup import Markup, el, join

_CODE = re.compile(r"`([^`]*)`")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def zone_names() -> tuple[str, ...]:
    """Zones that a reader may choose, UTC first; UTC alone where the machine has no table of zones."""
    found = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *found)


#: Offered in the menu, beside the reader's own; the script adds the browser's.
COMMON_ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Asia/Hong_Kong",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Europe/London",
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
)


def offered_zones(chosen: str) -> tuple[str, ...]:
    """Zones to choose from, the chosen one among them."""
    known = tuple(name for name in COMMON_ZONES if name in zone_names())
    return known if chosen in known else (*known, chosen)


@cache
def zone(name: str) -> tzinfo:
    """A zone by its name; UTC for one that is not known."""
    return ZoneInfo(name) if name != "UTC" and name in zone_names() else UTC


def coded(sentence: str) -> Markup:
    """A sentence whose commands, which stand between backticks, are shown as code."""
    parts = _CODE.split(sentence)
    return join(el("code", part, translate="no") if index % 2 else part for index, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class Speech:
    """`say("home.title")` is the text `page_home.title`; a missing one stands out, for a test to find it."""

    lang: str
    zone: str = "UTC"

    def say(self, code: str, /, **params: Any) -> str:
        """A sentence of the pages."""
        full = f"page_{code}"
        return text(full, params, self.lang) if has(full) else f"⟦{code}⟧"

    def word(self, kind: str, value: str | None) -> str:
        """A value of a closed list; unknown where there is none."""
        return self.say("common.unknown") if value is None else word(kind, value, self.lang)

    def reason(self, reason: Mapping[str, Any] | Reason) -> Markup:
        """Why something waits or was refused."""
        return coded(reason_text(reason, self.lang))

    def remedy(self, remedy: Mapping[str, Any]) -> Markup:
        """What would start something now."""
        return coded(remedy_text(remedy, self.lang))

    def factor(self, factor: Mapping[str, Any]) -> str:
        """What puts one before another."""
        return factor_text(factor, self.lang)

    def brief(self, reason: Mapping[str, Any]) -> Markup:
        """The same without those who hold it and what wakes it."""
        return coded(reason_text({**reason, "holders": (), "wakes_on": ()}, self.lang))

    def why(self, reason: Mapping[str, Any]) -> str:
        """The same in a word or two."""
        return word("why", str(reason["code"]), self.lang)

    def cause(self, verdict: Mapping[str, Any]) -> Markup:
        """Why an attempt failed, in one sentence."""
        return coded(verdict_cause(verdict, self.lang))

    def advice(self, verdict: Mapping[str, Any]) -> Markup:
        """What to do about it; empty where there is no advice."""
        code = f"verdict.action.{verdict['action']}"
        return coded(text(code, verdict, self.lang)) if has(code) else Markup("")

    def pointer(self, pointer: Mapping[str, Any]) -> Markup:
        """A piece of a verdict's evidence: which counter had which value, or which bytes of which log."""
        return coded(pointer_text(pointer, self.lang))

    def error(self, code: str, params: Mapping[str, Any] | None = None) -> Markup:
        """The sentence of an error."""
        return coded(error_text(code, dict(params or {}), self.lang))

    def finding(self, code: str, params: Mapping[str, Any]) -> Markup:
        """What a check of the doctor found."""
        return coded(text(f"doctor.{code}", dict(params), self.lang))

    def quantity(self, device_class: str, quantity: int | None) -> str:
        """An amount in the unit of its class, without the class; unknown where there is none."""
        return self.say("common.unknown") if quantity is None else format_quantity(device_class, quantity)

    def amount(self, device_class: str, quantity: int | None) -> str:
        """An amount with what it is of: `2 GPU`."""
        if quantity is None:
            return self.say("common.unknown")
        return amount(device_class, quantity, self.lang)

    def span(self, micros: int | None) -> str:
        """A span of time, without a fraction from ten seconds on; unknown where there is none."""
        if micros is None:
            return self.say("common.unknown")
        days, rest = divmod(max(0, micros), 86_400_000_000)
        if days:
            return f"{days}d {rest // 3_600_000_000}h"
        shown = format_duration(max(0, micros))
        return shown.partition(".")[0] + "s" if "." in shown and micros >= 10_000_000 else shown

    def when(self, at: int | None, form: str = "long") -> Markup:
        """An instant in the reader's zone, with UTC in its title: `long` date and time, `short` without the
        year, `time` alone, `day` alone."""
        if at is None:
            return el("span", self.say("common.unknown"), cls="unknown")
        moment = _EPOCH + timedelta(microseconds=at)
        local = moment.astimezone(zone(self.zone))
        pattern = {"short": "%m-%d %H:%M:%S", "time": "%H:%M:%S", "day": "%Y-%m-%d"}
        return el(
            "time",
            local.strftime(pattern.get(form, "%Y-%m-%d %H:%M:%S")),
            datetime=moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            title=moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        )

    def clock(self, at: int) -> str:
        """The same as plain text, for pictures."""
        return (_EPOCH + timedelta(microseconds=at)).astimezone(zone(self.zone)).strftime("%m-%d %H:%M:%S")

    def offset(self, at: int) -> int:
        """µs that the reader's clock is ahead of UTC at an instant."""
        ahead = (_EPOCH + timedelta(microseconds=at)).astimezone(zone(self.zone)).utcoffset() or timedelta()
        return ahead // timedelta(microseconds=1)

    def count(self, number: int | None) -> str:
        """A whole number in groups of three."""
        return self.say("common.unknown") if number is None else f"{number:,}".replace(",", "\u202f")
