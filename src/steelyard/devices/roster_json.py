"""The roster written down as JSON: who each card is, its facts and how it stands, no figure that changes.

What can't be read back is found anew: nothing in it is needed to go on.
"""

from __future__ import annotations

from typing import Any

from steelyard.devices.health import Rules, Standing
from steelyard.devices.reading import Reading
from steelyard.devices.roster import STATIC, Known, Roster
from steelyard.model.health import Health, Sign, SignCode, SignSource

VERSION = 1
_MOST = 100_000
_TEXTS = frozenset({"uuid", "serial", "pci", "partition", "model", "driver", "firmware"})
Json = dict[str, Any]


def written(roster: Roster) -> Json:
    """What `read_roster` reads."""
    return {"v": VERSION, "devices": [_device(one) for one in roster.known.values()]}


def read_roster(raw: object, rules: Rules) -> Roster:
    """The roster of a text that `written` gave; devices that can't be read are left out."""
    roster = Roster(rules)
    if not isinstance(raw, dict) or raw.get("v") != VERSION or not isinstance(raw.get("devices"), list):
        return roster
    for item in raw["devices"][:_MOST]:
        try:
            one = _known(item)
        except (KeyError, TypeError, ValueError):
            continue
        roster.known[one.uid] = one
    return roster


def _device(one: Known) -> Json:
    return {
        "uid": one.uid,
        "family": one.family,
        "uuid": one.uuid,
        "serial": one.serial,
        "pci": one.pci,
        "index": one.index,
        "file": one.file,
        "parent": one.parent,
        "on_bus": one.on_bus,
        "was_read": one.was_read,
        "read_at": one.read_at,
        "reading": None if one.reading is None else _reading(one.reading),
        "standing": None if one.standing is None else _standing(one.standing),
    }


def _reading(reading: Reading) -> Json:
    """Who it is; no figure that changes."""
    facts = {key: getattr(reading, key) for key in STATIC if getattr(reading, key) is not None}
    return {"tool": reading.tool, "layout": reading.layout, "facts": facts}


def _standing(standing: Standing) -> Json:
    return {
        "health": standing.health.value,
        "since": standing.since,
        "relapses": standing.relapses,
        "relapsed_at": standing.relapsed_at,
        "signs": [
            {
                "code": sign.code.value,
                "health": sign.health.value,
                "source": sign.source.value,
                "detail": sign.detail,
                "params": sign.params,
            }
            for sign in standing.signs
        ],
    }


def _text(raw: Json, key: str) -> str | None:
    value = raw[key]
    if value is not None and not isinstance(value, str):
        raise TypeError(key)
    return value


def _number(raw: Json, key: str) -> int | None:
    value = raw[key]
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(key)
    return value


def _known(raw: Json) -> Known:
    uid, family = _text(raw, "uid"), _text(raw, "family")
    if not uid or not family:
        raise ValueError("uid")
    return Known(
        uid,
        family,
        uuid=_text(raw, "uuid"),
        serial=_text(raw, "serial"),
        pci=_text(raw, "pci"),
        index=_number(raw, "index"),
        file=_number(raw, "file"),
        parent=_text(raw, "parent"),
        on_bus=bool(raw["on_bus"]),
        was_read=bool(raw["was_read"]),
        read_at=_number(raw, "read_at"),
        reading=None if raw["reading"] is None else _read_reading(family, raw["reading"]),
        standing=None if raw["standing"] is None else _read_standing(raw["standing"]),
    )


def _read_reading(family: str, raw: Json) -> Reading:
    facts = {key: value for key, value in raw["facts"].items() if key in STATIC and _fits(key, value)}
    return Reading(family, str(raw["tool"]), str(raw["layout"]), True, "", **facts)


def _fits(key: str, value: object) -> bool:
    if key == "mig":
        return isinstance(value, bool)
    return isinstance(value, str if key in _TEXTS else int) and not isinstance(value, bool)


def _read_standing(raw: Json) -> Standing:
    signs = tuple(
        Sign(
            SignCode(one["code"]),
            Health(one["health"]),
            SignSource(one["source"]),
            str(one["detail"]),
            {str(key): value for key, value in one["params"].items() if isinstance(value, (str, int))},
        )
        for one in raw["signs"]
    )
    since, relapses, at = (_number(raw, key) or 0 for key in ("since", "relapses", "relapsed_at"))
    return Standing(Health(raw["health"]), signs, since, relapses=relapses, relapsed_at=at)
