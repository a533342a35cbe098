"""What finished runs tell of how long like work takes: samples by template and by kind, the newest first, and
of a template and size by the model of device that they ran on."""

from __future__ import annotations

import msgspec

from steelyard.scheduling.run_times import MAX_SAMPLE, Learned, RunTimes, keys_of, model_key
from steelyard.store.database import View
from steelyard.store.estimates import finished_runs, held_models

#: Runs that are looked at.
MAX_RUNS = 4_000


class _Named(msgspec.Struct):
    template: str | None = None


_named = msgspec.json.Decoder(_Named).decode


def learn(view: View, with_models: bool = False) -> RunTimes:
    """From the newest runs that succeeded; the version is the end of the newest of them (µs). `with_models`:
    what they held is looked up, too."""
    times, models = _Samples(), dict[str, _Samples]()
    version = 0
    rows = [(row, _named(row["spec_json"]).template) for row in finished_runs(view, MAX_RUNS)]
    looked_up = {row["attempt_id"] for row, template in rows if with_models and template is not None}
    held = held_models(view, looked_up)
    for row, template in rows:
        version = max(version, row["end"])
        for key in keys_of(template, row["kind"]):
            times.add(key, row["held"])
        on = held.get(row["attempt_id"], {})
        if template is not None and len(on) == 1:  # of unlike devices nobody knows which it waited for
            ((model, size),) = on.items()
            models.setdefault(model_key(template, size), _Samples()).add(model, row["held"])
    return RunTimes(version, times.learned(), {key: found.learned() for key, found in models.items()})


class _Samples:
    """How long runs took, by key; given the newest first."""

    def __init__(self) -> None:
        self._taken: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}

    def add(self, key: str, held: int) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        sample = self._taken.setdefault(key, [])
        if len(sample) < MAX_SAMPLE:
            sample.append(max(1, held))

    def learned(self) -> dict[str, Learned]:
        return {key: Learned(self._counts[key], tuple(sorted(taken))) for key, taken in self._taken.items()}
