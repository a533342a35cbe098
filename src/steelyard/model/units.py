"""Quantities and time: integers only, wide sums, and the one place where text becomes a quantity.

Time is integer microseconds UTC, intervals half-open. Devices are counted in milli-devices
(1000 = one whole device), CPU in milli-cores, memory in MiB. The product quantity × time does not
fit 64 bits (shapes.md 15), so it is stored as two integers and written to JSON as a decimal string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from steelyard.model.errors import InvalidError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

WHOLE_DEVICE = 1000
#: The largest quantity of one request: far above any real cluster, far below what overflows.
MAX_QUANTITY = 2**40
#: RFC 8785 and JavaScript hold integers exactly up to here.
MAX_SAFE_INTEGER = 2**53 - 1

_LOW_BITS = 32
_LOW_MASK = (1 << _LOW_BITS) - 1


def split_wide(value: int) -> tuple[int, int]:
    """(high, low) with value = high·2³² + low and 0 ≤ low < 2³²; each part sums safely in 64 bits."""
    return value >> _LOW_BITS, value & _LOW_MASK


def join_wide(high: int, low: int) -> int:
    """The value of a pair, also of a pair of column sums."""
    return (high << _LOW_BITS) + low


def sum_wide(pairs: Iterable[tuple[int, int]]) -> int:
    """The exact sum of stored pairs."""
    return sum(join_wide(high, low) for high, low in pairs)


def wide_to_json(value: int) -> str:
    """Decimal text: JSON numbers beyond 2⁵³ are not exact."""
    return str(value)


def wide_from_json(text: str) -> int:
    """Reads what `wide_to_json` wrote. Raises InvalidError for anything but decimal digits."""
    if not re.fullmatch(r"-?[0-9]{1,40}", text):
        raise InvalidError("wide-number-invalid", text=text[:60])
    return int(text)


_NUMBER = re.compile(r"(?P<digits>[0-9]{1,15})(?:\.(?P<fraction>[0-9]{1,9}))?(?P<suffix>[A-Za-z]{0,2})")
_MEMORY_SUFFIX = {"": 1, "Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}


#: Measures of a class that are counted in thousandths of a unit, and that unit.
_FINE = {"memory": "memory", "normalised": "other"}


def unit_of(resource: str) -> tuple[str, int]:
    """(in whose unit, how many times finer) of a class or of `gpu/normalised`."""
    kind, _, measure = resource.partition("/")
    return (_FINE[measure], 1000) if measure in _FINE and kind != "flavor" else (kind, 1)


def parse_quantity(resource: str, value: object) -> int:
    """A quantity as people write it, in the resource's integer unit.

    cpu: `2`, `0.5` cores or `500m`. memory: `512`, `512Mi`, `2Gi`, `1Ti` (a bare number is MiB).
    Devices: `1`, `0.25` or `250m`. Raises InvalidError when the text is no quantity, is negative, not
    finite, too large, or finer than the unit. `gpu/memory` and `gpu/normalised` are a thousand times finer
    than what they are written in.
    """
    unit, finer = unit_of(resource)
    if finer > 1:
        return parse_quantity(unit, value) * finer
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidError("quantity-invalid", resource=resource, value=str(value)[:60])
    match = _NUMBER.fullmatch(repr(value) if isinstance(value, float) else str(value).strip())
    if match is None:
        raise InvalidError("quantity-invalid", resource=resource, value=str(value)[:60])
    suffix = match["suffix"]
    if resource == "memory":
        scale, divisor = _MEMORY_SUFFIX.get(suffix), 1
    else:
        scale, divisor = {"": (1000, 1), "m": (1, 1)}.get(suffix, (None, 1))
    if scale is None:
        raise InvalidError("quantity-invalid", resource=resource, value=str(value)[:60])
    fraction = match["fraction"] or ""
    scaled, remainder = divmod(int(match["digits"] + fraction) * scale, int(10 ** len(fraction)) * divisor)
    if remainder:
        raise InvalidError("quantity-too-fine", resource=resource, value=str(value)[:60])
    if scaled > MAX_QUANTITY:
        raise InvalidError("quantity-too-large", resource=resource, value=str(value)[:60])
    return scaled


def format_quantity(resource: str, quantity: int | None) -> str:
    """For people: `2`, `0.5`, `512 MiB`, `2 GiB`; a dash where it is not known."""
    if quantity is None:
        return "–"
    unit, finer = unit_of(resource)
    if unit == "memory" and finer > 1:
        return format_quantity(unit, -(-quantity // finer))
    if finer > 1:
        return f"{quantity // 10**6}.{quantity % 10**6:06d}".rstrip("0").rstrip(".")
    if resource == "memory":
        return f"{quantity // 1024} GiB" if quantity and quantity % 1024 == 0 else f"{quantity} MiB"
    whole, milli = divmod(quantity, 1000)
    return str(whole) if not milli else f"{whole}.{milli:03d}".rstrip("0")


_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?")


def parse_duration(value: object) -> int:
    """`90s`, `1h30m`, `2d`, `500ms` or whole seconds as an integer, in microseconds; positive."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10**9:
        return value * SECOND
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) and value.strip() else None
    if match is None:
        raise InvalidError("duration-invalid", value=str(value)[:60])
    scale = (DAY, HOUR, MINUTE, SECOND, MILLISECOND)
    total = sum(int(part) * unit for part, unit in zip(match.groups(), scale, strict=True) if part)
    if total <= 0:
        raise InvalidError("duration-invalid", value=value[:60] if isinstance(value, str) else str(value))
    return total


def format_duration(micros: int | None) -> str:
    """For people: `1h 02m`, `3.2s`, `15ms`; a dash where it is not known."""
    if micros is None:
        return "–"
    if micros < SECOND:
        return f"{micros // MILLISECOND}ms"
    if micros < MINUTE:
        return f"{micros // SECOND}.{micros % SECOND // 100_000}s"
    minutes, seconds = divmod(micros // SECOND, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"
