"""Learned run times as they are stored, and as a past cycle knew them."""

from __future__ import annotations

import msgspec

from steelyard.scheduling.run_times import RunTimes
from steelyard.store import run_times as rows
from steelyard.store.database import View

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(RunTimes).decode


def body_of(times: RunTimes) -> str:
    """As they are stored."""
    return _encode(times).decode()


def load_run_times(view: View) -> RunTimes:
    """What was learned last; nothing before the first."""
    return _read(rows.newest_run_times(view))


def run_times_at(view: View, at: int) -> RunTimes:
    """What was learned at an instant; 0: nothing was known."""
    return _read(rows.run_times_of(view, at) if at else None)


def _read(body: str | None) -> RunTimes:
    return RunTimes() if body is None else _decode(body)
