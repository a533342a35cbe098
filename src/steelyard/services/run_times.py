"""What finished runs tell of how long like work takes: samples by template and by kind, the newest first."""

from __future__ import annotations

import msgspec

from steelyard.scheduling.run_times import MAX_SAMPLE, Learned, RunTimes, keys_of
from steelyard.store.database import View
from steelyard.store.estimates import finished_runs

#: Runs that are looked at.
MAX_RUNS = 4_000


class _Named(msgspec.Struct):
    template: str | None = None


_named = msgspec.json.Decoder(_Named).decode


def learn(view: View) -> RunTimes:
    """From the newest runs that succeeded; the version is the end of the newest of them (µs)."""
    samples: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    version = 0
    for row in finished_runs(view, MAX_RUNS):
        version = max(version, row["end"])
        for key in keys_of(_named(row["spec_json"]).template, row["kind"]):
            counts[key] = counts.get(key, 0) + 1
            sample = samples.setdefault(key, [])
            if len(sample) < MAX_SAMPLE:
                sample.append(max(1, row["held"]))
    return RunTimes(version, {key: Learned(counts[key], tuple(sorted(samples[key]))) for key in samples})
