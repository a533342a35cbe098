"""`devices` of a local cluster's document: how it looks for accelerators, and for what takes its CPU."""

from __future__ import annotations

from pathlib import PurePosixPath

from steelyard.devices.settings import DeviceSettings, settings_of
from steelyard.model.errors import InvalidError
from steelyard.model.units import DAY, HOUR, MINUTE
from steelyard.services.reading import DocumentReader, write_amount

_MOST_FOLDERS = 32
_LEAST_EVERY = 1_000_000  # µs; a tool that is asked more often does little else


def read_devices(reader: DocumentReader) -> DeviceSettings:
    """The settings; every key may be left out. Raises InvalidError."""
    said: dict[str, object] = {}
    tools, privileged = (reader.texts(key, _MOST_FOLDERS, 1024) for key in ("tools", "privileged"))
    for index, path in enumerate(tools):
        _absolute(path, f"{reader.at('tools')}[{index}]")
    said |= {"tools": tools, "privileged": privileged}
    said |= _spans(reader, every=DAY, timeLimit=10 * MINUTE)
    simulated, system = reader.flag("simulated"), reader.optional_text("system")
    if system is not None:
        _absolute(system, reader.at("system"))
        if not simulated:  # a machine is never imitated unsaid
            raise InvalidError("field-invalid", path=reader.at("simulated"), expected="true")
    said |= {"simulated": simulated, **({"system": system} if system is not None else {})}
    if reader.has("health"):
        said["health"] = _health(reader.reader("health"))
    if reader.has("hogs"):
        said["hogs"] = _hogs(reader.reader("hogs"))
    reader.finish()
    settings = settings_of(said)
    if settings.every < _LEAST_EVERY:
        raise InvalidError("field-out-of-bounds", path=reader.at("every"), low=_LEAST_EVERY, high=DAY)
    if settings.rules.warm > settings.rules.hot:
        raise InvalidError("field-invalid", path=reader.at("health.warm"), expected=f"≤ {settings.rules.hot}")
    return settings


def _absolute(path: str, where: str) -> None:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or str(pure) == "/":
        raise InvalidError("field-invalid", path=where, expected="absolute folder")


def _spans(reader: DocumentReader, **longest: int) -> dict[str, object]:
    found = {key: reader.span(key, None, longest=most) for key, most in longest.items()}
    return {key: f"{micros // 1000}ms" for key, micros in found.items() if micros is not None}


def _whole(reader: DocumentReader, high: int, *keys: str) -> dict[str, object]:
    given = [key for key in keys if reader.has(key)]
    return {key: reader.integer(key, None, low=1, high=high) for key in given}


def _health(reader: DocumentReader) -> dict[str, object]:
    said = _whole(reader, 200, "warm", "hot")
    said |= _whole(reader, 100, "confirmSamples", "unknownSamples", "recoverSamples")
    said |= _spans(reader, recoverAfter=HOUR, eventHold=7 * DAY)
    reader.finish()
    return said


def _hogs(reader: DocumentReader) -> dict[str, object]:
    said = _whole(reader, 100, "memoryPercent", "looks")
    cpu = reader.optional_amount("cpu", "cpu")
    if cpu:
        said["cpu"] = write_amount("cpu", cpu)
    if reader.flag("ignore"):
        said["ignore"] = True
    reader.finish()
    return said
