"""How a local cluster looks for accelerators and for what takes its CPU and memory: its `devices`.

Everything has a default, so a document need not say anything. Stand-ins (`simulated`) are for trials and
tests: what is found by them is marked as simulated everywhere, and only they may imitate the machine's own
files (`system`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.devices.health import CONFIRM, Rules
from steelyard.devices.tool import TOOL_FOLDERS
from steelyard.model.units import MILLISECOND, SECOND, parse_duration, parse_quantity


@dataclass(frozen=True, slots=True)
class HogRules:
    """From which share on, and for how many looks in a row, a process that is not ours is told.

    Twenty looks are five minutes: what comes and goes, as a build does, takes nothing off the offer.
    """

    cpu: int = 500  # milli-cores
    memory: int = 50  # thousandths of the machine's memory
    looks: int = 20  # 0: nobody is looked for


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """See the module. Times in µs."""

    tools: tuple[str, ...] = TOOL_FOLDERS
    every: int = 15 * SECOND  # between two rounds of a family's questions
    time_limit: int = 10 * SECOND  # of one call of a tool
    privileged: frozenset[str] = frozenset()  # tools that run as the server's own user
    simulated: bool = False
    system: str = "/"  # below it are sys, dev and the kernel's log
    rules: Rules = field(default_factory=Rules)
    hogs: HogRules = HogRules()


def settings_of(raw: Mapping[str, Any] | None) -> DeviceSettings:
    """The settings that `devices` of a checked document says (services/documents.py checks it)."""
    said = raw or {}
    plain = DeviceSettings()
    return DeviceSettings(
        tools=tuple(said.get("tools") or plain.tools),
        every=_span(said, "every", plain.every),
        time_limit=_span(said, "timeLimit", plain.time_limit),
        privileged=frozenset(said.get("privileged") or ()),
        simulated=bool(said.get("simulated", False)),
        system=said.get("system") or plain.system,
        rules=_rules(said.get("health") or {}, plain.rules),
        hogs=_hogs(said.get("hogs") or {}, plain.hogs),
    )


def _rules(said: Mapping[str, Any], plain: Rules) -> Rules:
    confirm = dict(CONFIRM)
    if "confirmSamples" in said:
        confirm = {code: min(said["confirmSamples"], 100) for code in CONFIRM}
    return replace(
        plain,
        warm=said.get("warm", plain.warm),
        hot=said.get("hot", plain.hot),
        confirm=confirm,
        unknown_samples=said.get("unknownSamples", plain.unknown_samples),
        recover_samples=said.get("recoverSamples", plain.recover_samples),
        recover_time=_span(said, "recoverAfter", plain.recover_time),
        event_hold=_span(said, "eventHold", plain.event_hold),
    )


def _hogs(said: Mapping[str, Any], plain: HogRules) -> HogRules:
    return HogRules(
        cpu=parse_quantity("cpu", said["cpu"]) if "cpu" in said else plain.cpu,
        memory=said.get("memoryPercent", plain.memory // 10) * 10,
        looks=0 if said.get("ignore") else said.get("looks", plain.looks),
    )


def _span(said: Mapping[str, Any], key: str, default: int) -> int:
    return parse_duration(said[key]) if key in said else default


def to_spec(settings: DeviceSettings) -> dict[str, Any]:
    """The normal form of `devices`: what differs from the defaults."""
    plain = DeviceSettings()
    rules, usual = settings.rules, plain.rules
    codes = {rules.confirm[code] for code in CONFIRM if code in rules.confirm}
    health = {
        "warm": _other(rules.warm, usual.warm),
        "hot": _other(rules.hot, usual.hot),
        "confirmSamples": None if dict(rules.confirm) == dict(CONFIRM) else min(codes),
        "unknownSamples": _other(rules.unknown_samples, usual.unknown_samples),
        "recoverSamples": _other(rules.recover_samples, usual.recover_samples),
        "recoverAfter": _written(_other(rules.recover_time, usual.recover_time)),
        "eventHold": _written(_other(rules.event_hold, usual.event_hold)),
    }
    hogs = {
        "cpu": None if settings.hogs.cpu == plain.hogs.cpu else f"{settings.hogs.cpu}m",
        "memoryPercent": _other(settings.hogs.memory // 10, plain.hogs.memory // 10),
        "looks": _other(settings.hogs.looks, plain.hogs.looks) or None,
        "ignore": True if settings.hogs.looks == 0 else None,
    }
    spec: dict[str, Any] = {
        "tools": None if settings.tools == plain.tools else list(settings.tools),
        "every": _written(_other(settings.every, plain.every)),
        "timeLimit": _written(_other(settings.time_limit, plain.time_limit)),
        "privileged": sorted(settings.privileged) or None,
        "simulated": True if settings.simulated else None,
        "system": None if settings.system == plain.system else settings.system,
        "health": _held(health) or None,
        "hogs": _held(hogs) or None,
    }
    return _held(spec)


def _other(value: int, default: int) -> int | None:
    return None if value == default else value


def _written(micros: int | None) -> str | None:
    return None if micros is None else f"{micros // MILLISECOND}ms"


def _held(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
