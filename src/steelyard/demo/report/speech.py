"""One language of the report: every sentence and every unit comes from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.demo.expect import Param, Said
from steelyard.locale import pointer_text, reason_text, text, verdict_text, word
from steelyard.model.units import SECOND, format_duration, format_quantity

_TENTHS = 10


@dataclass(frozen=True, slots=True)
class Speech:
    """`speech("heading.x", n=1)` is the sentence of `report.heading.x`."""

    lang: str

    def __call__(self, code: str, /, **params: Param) -> str:
        return text(f"report.{code}", params, self.lang)

    def said(self, said: Said) -> str:
        """A sentence of the story."""
        return text(said.code, said.params, self.lang)

    def said_step(self, step: str) -> str:
        """The title of a chapter."""
        return text(f"demo.step.{step}", None, self.lang)

    def word(self, kind: str, value: str | None) -> str:
        """A value of a closed list."""
        return word(kind, value, self.lang)

    def reason(self, reason: Mapping[str, Any]) -> str:
        """A reason with its numbers and holders."""
        return reason_text(reason, self.lang)

    def pointer(self, pointer: Mapping[str, Any]) -> str:
        """A piece of a verdict's evidence."""
        return pointer_text(pointer, self.lang)

    def verdict(self, verdict: Mapping[str, Any]) -> str:
        """Why an attempt failed, whose matter it is, what to do."""
        return verdict_text(verdict, self.lang)

    def kind_of(self, device_class: str, simulated: bool) -> str:
        """A class, with the mark of what is simulated."""
        name = self.word("class", device_class)
        return self("class.simulated", name=name) if simulated else self("class.real", name=name)

    def amount(self, device_class: str, quantity: int | None) -> str:
        """A quantity in the unit of its class."""
        return format_quantity(device_class, quantity)

    def product(self, device_class: str, value: int) -> str:
        """Quantity × µs for people: GPU·s, core·s, GiB·s, or hours of them, to a tenth; below one to a
        thousandth."""
        per_second = 1024 * SECOND if device_class == "memory" else 1000 * SECOND
        hours = value >= per_second * 36_000
        tenths = value * _TENTHS // (per_second * 3600 if hours else per_second)
        number = f"{tenths // _TENTHS:,}.{tenths % _TENTHS}"
        if 0 < value < per_second:
            number = f"0.{value * 1000 // per_second:03d}"
        return self(f"product.{'hours' if hours else 'seconds'}.{device_class}", n=number)

    def duration(self, micros: int | None) -> str:
        """A span of time."""
        return format_duration(micros)


def exact(value: int | str) -> str:
    """Every digit, in groups of three."""
    return f"{int(value):,}".replace(",", "\u202f")


def percent(part: int, whole: int) -> str:
    """A share to a tenth of a percent; a dash of nothing."""
    if whole <= 0:
        return "–"
    tenths = part * 1000 // whole
    return f"{tenths // 10}.{tenths % 10} %"
