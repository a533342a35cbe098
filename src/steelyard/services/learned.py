"""Learned run times as they are stored, and as a past cycle knew them."""

from __future__ import annotations

import msgspec

from steelyard.scheduling.run_times import RunTimes
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.versioned import body_at, newest

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(RunTimes).decode


def body_of(times: RunTimes) -> str:
    """As they are stored."""
    return _encode(times).decode()


def load_run_times(view: View) -> RunTimes:
    """What was learned last; nothing before the first."""
    found = newest(view, t.run_times)
    return _read(found[1] if found is not None else None)


def run_times_at(view: View, at: int) -> RunTimes:
    """What was learned at an instant; 0: nothing was known."""
    return _read(body_at(view, t.run_times, at) if at else None)


def _read(body: str | None) -> RunTimes:
    return RunTimes() if body is None else _decode(body)
