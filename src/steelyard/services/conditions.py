"""What is said of a device, as stored and as shown: signs and holders in JSON, the words beside a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from steelyard.model.availability import OFFERED, State, availability_of
from steelyard.model.health import DeviceFlag, DeviceHolder, Health, Sign
from steelyard.model.resources import Availability, UnavailableReason
from steelyard.services.live_records import SOUND, Condition

Json = dict[str, Any]
MAX_SIGNS, MAX_HOLDERS, MAX_TEXT = 16, 32, 200
_encode = msgspec.json.Encoder(order="deterministic").encode
_signs = msgspec.json.Decoder(tuple[Sign, ...]).decode
_holders = msgspec.json.Decoder(tuple[DeviceHolder, ...]).decode
#: Reasons that a flag gives, and the flag.
_BY_FLAG = {
    UnavailableReason.FENCED: DeviceFlag.QUARANTINED,
    UnavailableReason.MAINTENANCE: DeviceFlag.MAINTENANCE,
    UnavailableReason.CORDONED: DeviceFlag.CORDONED,
}
_BY_HEALTH = frozenset(
    {UnavailableReason.UNHEALTHY, UnavailableReason.MISSING, UnavailableReason.HEALTH_UNKNOWN}
)


def read_condition(row: Any) -> Condition:
    """A row of device_condition; None: nothing is stored, so there is nothing to say."""
    if row is None:
        return SOUND
    return Condition(
        Health(row.health), _signs(row.signs_json), _holders(row.holders_json), row.occupied, row.reason_text
    )


def condition_row(condition: Condition) -> Json:
    """Columns of device_condition."""
    return {
        "health": condition.health.value,
        "signs_json": _encode(condition.signs).decode(),
        "holders_json": _encode(condition.holders).decode(),
        "occupied": condition.occupied,
        "reason_text": condition.text,
    }


def text_beside(
    reason: str | None, condition: Condition, flag_reasons: Mapping[DeviceFlag, str], place: str | None
) -> str | None:
    """The free text that belongs to a device's reason: an operator's, its place's, a source's, or who is on
    it. None where it is available, or nobody said more than the reason does."""
    if reason is None:
        return None
    code = UnavailableReason(reason)
    if code in _BY_FLAG:
        return flag_reasons.get(_BY_FLAG[code])
    if code is UnavailableReason.OCCUPIED_UNOWNED:
        return names_of(condition.holders) or None
    if code in _BY_HEALTH:
        said = next((sign.detail for sign in condition.signs if sign.detail), None)
        return condition.text or said or place
    return condition.text or place


def names_of(holders: Iterable[DeviceHolder]) -> str:
    """`python (4711), …` of processes on a device."""
    shown = [f"{h.name or '?'} ({'?' if h.pid is None else h.pid})" for h in holders]
    return ", ".join(shown)[:MAX_TEXT]


def place_of(
    state: tuple[Availability, str | None],
    condition: Condition,
    flags: Iterable[DeviceFlag],
    unowned: bool,
    divided: bool,
) -> State:
    """What its place must have been for a stored state that neither flags nor health explain."""
    stored = (state[0], None if state[1] is None else UnavailableReason(state[1]))
    own = availability_of(condition.health, frozenset(flags), unowned, divided=divided)
    return OFFERED if stored == own or stored[0] is Availability.AVAILABLE else stored


def sign_view(sign: Sign) -> Json:
    """A sign as shown."""
    return {
        "code": sign.code.value,
        "health": sign.health.value,
        "source": sign.source.value,
        "detail": sign.detail,
        "params": dict(sign.params),
    }


def process_view(holder: DeviceHolder) -> Json:
    """A process on a device as shown."""
    return {"pid": holder.pid, "name": holder.name, "memory": holder.memory, "cpu": holder.cpu}
