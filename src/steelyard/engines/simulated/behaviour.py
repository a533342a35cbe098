"""What a simulated member does once it runs: the `expect` part of its role."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.engines.simulated.reader import Reader
from steelyard.model.errors import InvalidError
from steelyard.model.units import SECOND

FOREVER = "forever"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Durations are µs.

    run          how long it runs; None: until it is stopped (`forever`)
    exit_code    what it exits with; None where a signal ends it
    exit_signal  (`signal`) the signal that ends it
    ready_after  how long after its start it is ready
    ignore_term  TERM has no effect; only KILL ends it
    term_exit    the code it exits with on TERM; None: the signal ends it
    checkpoint   it writes one this often, and on demand; None: never. An attempt that resumes from another
                 goes on from its last one
    oom          it is killed for memory at its end
    """

    run: int | None = SECOND
    exit_code: int | None = 0
    exit_signal: int | None = None
    ready_after: int = 0
    ignore_term: bool = False
    term_exit: int | None = None
    checkpoint: int | None = None
    oom: bool = False


def parse_expect(expect: dict[str, str], *, service: bool = False, path: str = "expect") -> Behaviour:
    """A role's behaviour. Raises InvalidError with the path.

    An empty mapping runs for 1 s (a service: until it is stopped) and exits 0.
    """
    reader = Reader(expect, path)
    run: int | None = None if service else SECOND
    if reader.has("run"):
        raw = reader.take("run")
        run = None if raw == FOREVER else Reader({"run": raw}, path).duration("run", 0)
    signal = _number(reader, "signal", 1, 64)
    exit_code = _number(reader, "exit", 0, 255)
    oom = _flag(reader, "oom")
    if oom:
        signal = 9
    behaviour = Behaviour(
        run=run,
        exit_code=None if signal is not None else exit_code or 0,
        exit_signal=signal,
        ready_after=reader.duration("ready-after", 0),
        ignore_term=_flag(reader, "ignore-term"),
        term_exit=_number(reader, "term-exit", 0, 255),
        checkpoint=reader.optional_duration("checkpoint") or None,
        oom=oom,
    )
    reader.finish()
    return behaviour


def _number(reader: Reader, key: str, low: int, high: int) -> int | None:
    if not reader.has(key):
        return None
    raw = str(reader.take(key)).strip()
    if not raw.isascii() or not raw.isdecimal() or len(raw) > 6 or not low <= int(raw) <= high:
        raise InvalidError("field-out-of-bounds", path=reader.at(key), low=low, high=high)
    return int(raw)


def _flag(reader: Reader, key: str) -> bool:
    raw = reader.take(key, False)
    if raw in (True, "true"):
        return True
    if raw in (False, "false"):
        return False
    raise InvalidError("field-invalid", path=reader.at(key), expected="true or false")
