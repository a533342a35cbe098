"""Ids: time-ordered 63-bit integers in rows, `wl_…` wherever people and JSON see them.

Layout: 41 bits milliseconds since 2024-01-01, 10 bits server number, 12 bits sequence. The text form
is the integer in 13 characters of Crockford's base 32, so that its order is the integer's order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from steelyard.model.errors import InvalidError
from steelyard.model.units import MILLISECOND

#: object kind → prefix of its rendered id
PREFIXES: dict[str, str] = {
    "workload": "wl",
    "attempt": "at",
    "member": "mb",
    "allocation": "al",
    "device": "dv",
    "node": "nd",
    "refusal": "rf",
    "cycle": "cy",
    "user": "us",
    "credential": "cr",
    "session": "se",
    "declared": "ob",
    "shape": "sh",
    "receipt": "rc",
    "release": "rl",
    "flag": "fl",
    "registration": "rg",
    "closing": "pc",
    "admission": "ad",
    "verification": "vr",
    "execution": "ex",
    "request": "rq",
    "server": "sv",
}
EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
_SEQUENCE_BITS = 12
_SERVER_BITS = 10
MAX_SERVERS = 1 << _SERVER_BITS
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
#: From our digits to those that `int` reads.
_DIGITS = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LENGTH = 13


@lru_cache(maxsize=1 << 16)
def render(kind: str, number: int) -> str:
    """The text form of an id, e.g. `wl_0c1x8j2k3m4n5`."""
    parts = [_PAIRS[number >> shift & 1023] for shift in (50, 40, 30, 20, 10, 0)]
    return f"{PREFIXES[kind]}_{_ALPHABET[number >> 60]}{''.join(parts)}"


def parse(kind: str, text: str) -> int:
    """The integer of a rendered id. Raises InvalidError when it is not one of this kind."""
    prefix, _, digits = text.partition("_")
    if prefix != PREFIXES[kind] or len(digits) != _LENGTH or digits.strip(_ALPHABET):
        raise InvalidError("id-invalid", kind=kind, id=text[:80])
    number = int(digits.translate(_DIGITS), 32)
    if number >= 1 << 63:
        raise InvalidError("id-invalid", kind=kind, id=text[:80])
    return number


class IdSource:
    """Hands out increasing ids, never one twice, also when the clock steps back. Thread-safe.

    `now` returns microseconds UTC; `server` is the number the store gave this process, which no other
    process had in its last 1024 starts.
    """

    def __init__(self, now: Callable[[], int], server: int) -> None:
        self._now = now
        self._server = (server % MAX_SERVERS) << _SEQUENCE_BITS
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """The next id."""
        with self._lock:
            at = self._now() // MILLISECOND - EPOCH_MS
            tick, sequence = divmod(self._last, 1 << _SEQUENCE_BITS)
            if at > tick:
                tick, sequence = at, 0
            else:
                sequence += 1
                if sequence >> _SEQUENCE_BITS:
                    tick, sequence = tick + 1, 0
            self._last = tick << _SEQUENCE_BITS | sequence
            return (tick << _SERVER_BITS + _SEQUENCE_BITS) | self._server | sequence


def id_time(number: int) -> int:
    """Microseconds UTC at which the id was made (to the millisecond)."""
    return ((number >> _SERVER_BITS + _SEQUENCE_BITS) + EPOCH_MS) * MILLISECOND


def first_id_at(micros: int) -> int:
    """The smallest id that can have been made at or after this instant (to the millisecond)."""
    return max(0, micros // MILLISECOND - EPOCH_MS) << _SERVER_BITS + _SEQUENCE_BITS
