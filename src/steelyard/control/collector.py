"""The garbage collector and the C library's heaps, set for a process that keeps many long-lived records.

With Python's defaults a third of the control plane's time went into full collections over records that
live for minutes (benchmarks/control_plane.py: 810 against 1,290 workloads a second with 10,000 live).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

#: New objects before a young collection; young ones before a middle one; middle ones before a full one.
THRESHOLDS = (50_000, 20, 100)
#: glibc gives threads heaps of their own, eight a core; what was freed in one stays there, unused by the
#: others. Only one thread computes at a time here, and few wait for a heap.
HEAPS = 2
_M_ARENA_MAX = -8  # malloc.h


def tune() -> None:
    """Call once, when everything is imported: modules are not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    with contextlib.suppress(AttributeError, OSError):  # another C library has no such setting
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)
