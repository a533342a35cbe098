"""The garbage collector, set for a process that keeps many long-lived records.

With Python's defaults a third of the control plane's time went into full collections over records that
live for minutes (benchmarks/control_plane.py: 810 against 1,290 workloads a second with 10,000 live).
"""

from __future__ import annotations

import gc

#: New objects before a young collection; young ones before a middle one; middle ones before a full one.
THRESHOLDS = (50_000, 20, 100)


def tune() -> None:
    """Call once, when everything is imported: modules are not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
