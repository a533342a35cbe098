"""How long work of a kind has run before: what finished runs of a template, or of a kind, took.

A sample is kept by key, sorted, of bounded size. From it follows within which time some share of like runs
had ended, of those that ran at least as long as this one has: what has run for an hour is no longer one of
the runs of a minute. Runs of a template of the same size are kept by the model that they ran on, too: how
fast it is on one beside another. A versioned input: the same version always says the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low

#: Runs kept of one key: the newest.
MAX_SAMPLE = 64
#: Fewer runs than this tell nothing; of models, fewer on each of two.
MIN_SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Learned:
    """Finished runs of one key: how many there were, and how long (µs) those of the sample took, sorted."""

    count: int
    sample: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunTimes:
    """What was learned, by key: `template/NAME`, else `kind/KIND`."""

    version: int = 0
    by_key: Mapping[str, Learned] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, Learned]] = field(default_factory=dict)  # `template/NAME/SIZE`, model

    def speeds(self, template: str, size: int) -> tuple[tuple[str, int, int], ...]:
        """(model, thousandths of the speed on the best one, runs) of work of a template that asks for so many
        milli-devices, by the median run on each model; empty unless two models had runs enough."""
        found = self.by_model.get(model_key(template, size), {})
        medians = {
            model: (median_low(learned.sample), learned.count)
            for model, learned in found.items()
            if len(learned.sample) >= MIN_SAMPLE
        }
        if len(medians) < 2:
            return ()
        best = min(took for took, _ in medians.values())
        return tuple(
            (model, max(1, 1000 * best // took), runs) for model, (took, runs) in sorted(medians.items())
        )

    def within(self, keys: Iterable[str], elapsed: int, permille: int) -> int | None:
        """The whole run time (µs) within which `permille` of the runs ended that took longer than `elapsed`,
        by the first of the keys that knows enough; None where none does."""
        for key in keys:
            learned = self.by_key.get(key)
            if learned is None:
                continue
            left = learned.sample[bisect_right(learned.sample, elapsed):]  # fmt: skip
            if len(left) >= MIN_SAMPLE:
                return left[max(0, -(-len(left) * permille // 1000) - 1)]
        return None


def keys_of(template: str | None, kind: str | None) -> tuple[str, ...]:
    """The keys of a run, the nearest first; a template by its name, whatever its version."""
    named = () if template is None else (f"template/{template.partition('@')[0]}",)
    return named if kind is None else (*named, f"kind/{kind}")


def model_key(template: str, size: int) -> str:
    """Under which runs of a template are kept by model: of its name, and of so many milli-devices."""
    return f"template/{template.partition('@')[0]}/{size}"
