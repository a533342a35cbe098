"""How well a device is, weighed from all that its sources say: with memory, so that it does not flap.

Pure: a sample and the time come in, a `Standing` (a plain value) goes out. Rules:

- What says for itself that a device can't be used (it fell off the bus, it must be reset, memory that could
  not be corrected) counts at once; anything that one reading may get wrong counts only when it is seen in
  `Rules.confirm` samples in a row. A sample that tells nothing is neither good nor bad, and never makes a
  device unhealthy: several of them in a row make a healthy one unknown.
- A device gets worse at once, and better only after several good samples over some time; after a relapse
  that time doubles, up to a bound, so that a card which comes and goes stays out. The state after a good run
  is the worst of the run.
- What vanished is missing until good samples of it came as often and as long as that.

The numbers are data (`Rules`), which a cluster's document may set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from steelyard.model.health import Health, Sign, SignCode, SignSource
from steelyard.model.units import HOUR, MINUTE, SECOND

#: How far from being usable; of two that are offered, and of two that are not, the worse one is higher.
RANK: Mapping[Health, int] = MappingProxyType(
    {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.UNKNOWN: 2, Health.UNHEALTHY: 3, Health.MISSING: 4}
)
_BAD = (Health.DEGRADED, Health.UNHEALTHY, Health.MISSING)

#: Samples in a row until a sign counts. What is not named counts at once.
CONFIRM: Mapping[SignCode, int] = MappingProxyType(
    {
        SignCode.OVERHEATED: 3,
        SignCode.LINK_DEGRADED: 3,
        SignCode.LINK_DOWN: 2,
        SignCode.POWER_FAULT: 2,
        SignCode.VENDOR_ALARM: 2,
        SignCode.VENDOR_WARNING: 2,
        SignCode.COMPUTE_OFF: 2,
        SignCode.NOT_FOUND: 2,
    }
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Thresholds. `warm` and `hot` are degrees Celsius from which a device is degraded or unhealthy."""

    warm: int = 90
    hot: int = 100
    confirm: Mapping[SignCode, int] = field(default_factory=lambda: CONFIRM)
    unknown_samples: int = 3  # samples without any answer until a healthy device is unknown
    known_samples: int = 2  # answers in a row until an unknown device is known again
    recover_samples: int = 3  # good samples in a row …
    recover_time: int = 60 * SECOND  # … over at least so long; doubled with each relapse …
    recover_longest: int = HOUR  # … up to this
    calm: int = 24 * HOUR  # without a relapse for so long: the doubling starts anew
    event_hold: int = 15 * MINUTE  # so long after it a line of the kernel's log speaks against its device


@dataclass(frozen=True, slots=True)
class Sample:
    """What all sources together say of one device at one time.

    `known`: at least one source that can tell of its health told. `gone`: no source finds it any more, and
    each of them could be asked; a tool alone that does not list it gives a sign `not-found` instead.
    """

    signs: tuple[Sign, ...] = ()
    known: bool = True
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What is held of a device, and what is remembered to weigh the next sample."""

    health: Health
    signs: tuple[Sign, ...]  # what led to it, worst first; they stay until the health changes
    since: int
    counts: tuple[tuple[SignCode, int], ...] = ()  # samples in a row, by sign that is not confirmed for good
    silent: int = 0  # samples in a row that told nothing
    good: int = 0  # samples in a row that were better than `health`
    good_since: int = 0
    good_worst: Health = Health.HEALTHY  # the worst of these, and its signs
    good_signs: tuple[Sign, ...] = ()
    relapses: int = 0
    relapsed_at: int = 0


def temperature_sign(celsius: int | None, rules: Rules) -> tuple[Sign, ...]:
    """What a temperature speaks for; nothing where it is not known."""
    if celsius is None or celsius < rules.warm:
        return ()
    health, bound = (Health.UNHEALTHY, rules.hot) if celsius >= rules.hot else (Health.DEGRADED, rules.warm)
    params: dict[str, str | int] = {"celsius": celsius, "bound": bound}
    return (Sign(SignCode.OVERHEATED, health, SignSource.TEMPERATURE, params=params),)


def weigh(before: Standing | None, sample: Sample, now: int, rules: Rules) -> Standing:
    """The standing after one more sample. `now` in µs; a clock that goes back counts as one that stands."""
    counts = _count(before, sample)
    confirmed = tuple(
        sign for sign in sample.signs
        if sign.health in _BAD and counts.get(sign.code, 0) >= rules.confirm.get(sign.code, 1)
    )  # fmt: skip
    target = Health.MISSING if sample.gone else _worst(confirmed, sample)
    if before is None:
        return _first(sample, confirmed, target, counts, now)
    told = sample.known or target in _BAD
    standing = replace(
        before,
        counts=tuple(sorted((code, number) for code, number in counts.items() if number)),
        silent=0 if told else before.silent + 1,
    )
    if not told:
        return _silent(standing, sample, now, rules)
    if target in _BAD and RANK[target] > RANK[before.health]:
        return _fall(standing, target, _worst_first(confirmed, sample), now, rules)
    if RANK[target] < RANK[before.health]:
        if any(sign.health in _BAD and RANK[sign.health] > RANK[target] for sign in sample.signs):
            return replace(standing, good=0)  # something speaks against it, if not for certain
        return _rise(standing, target, confirmed, now, rules)
    return _stay(standing, confirmed)


def _count(before: Standing | None, sample: Sample) -> dict[SignCode, int]:
    """Samples in a row by sign. One that tells nothing leaves the others' counts as they are."""
    counts = dict(before.counts) if before is not None else {}
    bad = {sign.code for sign in sample.signs if sign.health in _BAD}
    kept = {} if sample.known else {code: number for code, number in counts.items() if code not in bad}
    return {**kept, **{code: min(counts.get(code, 0) + 1, 100) for code in bad}}


def _worst(confirmed: tuple[Sign, ...], sample: Sample) -> Health:
    if confirmed:
        return max((sign.health for sign in confirmed), key=lambda health: RANK[health])
    return Health.HEALTHY if sample.known else Health.UNKNOWN


def _worst_first(signs: tuple[Sign, ...], sample: Sample) -> tuple[Sign, ...]:
    """The signs to show, the worst first, one of a code. What is gone without a word has `not-found`."""
    shown: dict[SignCode, Sign] = {}
    for sign in sorted(signs, key=lambda one: (-RANK[one.health], one.code)):
        shown.setdefault(sign.code, sign)
    if sample.gone and not any(sign.health is Health.MISSING for sign in shown.values()):
        return (Sign(SignCode.NOT_FOUND, Health.MISSING, SignSource.BUS), *shown.values())
    return tuple(shown.values())


def _first(
    sample: Sample, confirmed: tuple[Sign, ...], target: Health, counts: dict[SignCode, int], now: int
) -> Standing:
    """A device seen for the first time. What speaks against it unconfirmed is waited for, not offered."""
    suspected = tuple(sign for sign in sample.signs if sign.health in (Health.UNHEALTHY, Health.MISSING))
    if target is Health.HEALTHY and suspected:
        target, confirmed = Health.UNKNOWN, suspected
    signs = confirmed if target in _BAD or confirmed else _quiet(sample) if target is Health.UNKNOWN else ()
    return Standing(target, _worst_first(signs, sample), now, tuple(sorted(counts.items())))


def _quiet(sample: Sample) -> tuple[Sign, ...]:
    """Why nothing is known."""
    return tuple(sign for sign in sample.signs if sign.health is Health.UNKNOWN)


def _silent(standing: Standing, sample: Sample, now: int, rules: Rules) -> Standing:
    """Nobody told: it breaks a good run, and makes a healthy device unknown once it goes on."""
    standing = replace(standing, good=0)
    if standing.health is Health.UNKNOWN:
        return _renewed(standing, _worst_first(_quiet(sample), sample))
    if standing.health in (Health.UNHEALTHY, Health.MISSING) or standing.silent < rules.unknown_samples:
        return standing
    return replace(standing, health=Health.UNKNOWN, signs=_worst_first(_quiet(sample), sample), since=now)


def _renewed(standing: Standing, signs: tuple[Sign, ...]) -> Standing:
    """With other signs, if they are others; the words of the same ones stay, so that nothing changes."""
    same = {sign.code for sign in signs} == {sign.code for sign in standing.signs}
    return standing if same or not signs else replace(standing, signs=signs)


def _fall(standing: Standing, target: Health, signs: tuple[Sign, ...], now: int, rules: Rules) -> Standing:
    relapses, at = standing.relapses, standing.relapsed_at
    if target is not Health.DEGRADED and RANK[standing.health] < RANK[Health.UNHEALTHY]:
        recent = at > 0 and now - at < rules.calm
        relapses, at = (relapses + 1 if recent else 0), max(now, 1)
    return replace(
        standing, health=target, signs=signs, since=now, good=0, silent=0, relapses=relapses, relapsed_at=at
    )


def _rise(
    standing: Standing, target: Health, confirmed: tuple[Sign, ...], now: int, rules: Rules
) -> Standing:
    """One more good sample: better once there are enough of them over enough time."""
    fresh = standing.good == 0
    since = now if fresh else standing.good_since
    standing = replace(standing, good=standing.good + 1, good_since=since)
    if fresh or RANK[target] > RANK[standing.good_worst]:
        standing = replace(standing, good_worst=target, good_signs=_worst_first(confirmed, Sample()))
    if standing.health is Health.UNKNOWN:
        samples, span = rules.known_samples, 0
    else:
        samples, span = rules.recover_samples, recovery_time(standing, rules)
    if standing.good < samples or now - since < span:
        return standing
    return replace(
        standing, health=standing.good_worst, signs=standing.good_signs, since=now, good=0, good_signs=()
    )


def recovery_time(standing: Standing, rules: Rules) -> int:
    """µs over which a device must be good until it is better."""
    longest = max(rules.recover_time, rules.recover_longest)
    return min(rules.recover_time << min(standing.relapses, 20), longest)


def _stay(standing: Standing, confirmed: tuple[Sign, ...]) -> Standing:
    """As bad as before: signs that are new are added, and those shown stay."""
    standing = replace(standing, good=0)
    shown = {sign.code for sign in standing.signs}
    new = tuple(sign for sign in confirmed if sign.code not in shown)
    if not new:
        return standing
    return replace(standing, signs=_worst_first((*standing.signs, *new), Sample()))
