"""What an observer sees."""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A device as an observer sees it. `names`: everything it may be known by; `memory` MiB, `capacity` in
    the class's unit, None where it can't tell; `holders`: process ids on it, None where not seen."""

    names: tuple[str, ...]
    device_class: str
    node: str | None = None
    capacity: int | None = None
    memory: int | None = None
    holders: tuple[int, ...] | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What an observer saw of a class. `devices` None: it could not look, for `why`; never taken for none."""

    observer: str
    source: str
    at: int
    devices: tuple[Found, ...] | None = None
    why: str | None = None


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A task as an observer sees it. `alive` None: it can't be told. `devices`: names of what it sees or
    holds, with quantities where the observer knows them."""

    observer: str
    alive: bool | None
    devices: tuple[tuple[str, int | None], ...] = ()
    why: str | None = None
    detail: dict[str, str] = {}
