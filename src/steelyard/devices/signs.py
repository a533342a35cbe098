"""Signs that several vendors' parsers give in the same way.

A signal that the catalogue holds for unconfirmed makes a device degraded, never unhealthy: it was not seen
to mean what it seems to say. The sign carries `unconfirmed` so that whoever reads it knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.devices.reading import DETAIL_LIMIT, Reading, kept
from steelyard.model.health import Health, Sign, SignCode, SignSource

#: What a working device's tool can always tell some of. `memory` and limits are known of a dead one, too.
_LIVE = ("memory_used", "utilisation", "temperature", "power")


def unconfirmed(code: SignCode, source: SignSource, detail: str, **params: str | int) -> Sign:
    """A signal whose meaning is not confirmed: degraded at most."""
    return Sign(code, Health.DEGRADED, source, kept(detail)[:DETAIL_LIMIT], {"unconfirmed": 1, **params})


def ecc_uncorrected(count: int | None, detail: str) -> Iterable[Sign]:
    """Uncorrectable errors above 0, of a vendor for which that was not confirmed to mean a broken device."""
    if count:
        yield unconfirmed(SignCode.ECC_UNCORRECTED, SignSource.ECC, detail, count=count)


def nothing_read(reading: Reading, names: Iterable[str] = _LIVE) -> Iterable[Sign]:
    """A whole row in which every figure of a running device is unknown: nothing says how it is."""
    if all(getattr(reading, name) is None for name in names):
        yield Sign(SignCode.READING_UNKNOWN, Health.UNKNOWN, SignSource.TOOL, "no figure was read")
