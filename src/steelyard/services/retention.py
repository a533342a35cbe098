"""How long records are kept that no evidence and no usage rests on, and their going.

Leaves, usage, receipts, workloads and their attempts stay for good. What goes: inputs and outputs of
scheduling cycles (their placements stand in leaves), answers kept for requests sent again, credentials that
ended, and of refusals the document that was asked and all reasons but the binding one (the record itself
stays, so that counts stay exact). Each time a leaf says how many of what went, and until when.

Set in the data folder's `config.toml` of the server that holds the control lease:

    [retention]
    cycles = "90d"
    idempotency = "7d"
    credentials = "90d"
    refusals = "never"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from steelyard.evidence.leaf import LOG_KIND, LeafDraft
from steelyard.model.errors import InvalidError
from steelyard.model.units import DAY, parse_duration
from steelyard.services.reasons import read_reasons, write_reasons
from steelyard.store import retention as rows
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.unit import Unit

ACTION_PURGED = "retention.purged"
NEVER = "never"
MOST_AT_ONCE = 1_000  # rows of a kind in a unit
#: What is kept as long as what rests on it.
_AS = dict.fromkeys(("history", "prices", "estimates", "run-times"), "cycles")
CONFIG_FILE, SECTION = "config.toml", "retention"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each kind of record is kept, µs; None: for good."""

    cycles: int | None = 90 * DAY
    idempotency: int | None = 7 * DAY
    credentials: int | None = 90 * DAY
    refusals: int | None = None


def read_retention(folder: Path) -> Retention:
    """As the folder's `config.toml` says. Raises InvalidError `config-invalid`."""
    path = folder / CONFIG_FILE
    try:
        with path.open("rb") as file:
            found = tomllib.load(file).get(SECTION, {})
    except FileNotFoundError:
        return Retention()
    except (OSError, ValueError) as error:
        raise InvalidError("config-invalid", path=str(path), reason=str(error)[:200]) from None
    return _parsed(found, str(path))


def _parsed(found: object, path: str) -> Retention:
    known = {field.name for field in fields(Retention)}
    if not isinstance(found, Mapping) or not found.keys() <= known:
        raise InvalidError("config-invalid", path=path, reason=f"[{SECTION}]: {', '.join(sorted(known))}")
    try:
        return Retention(**{name: None if v == NEVER else parse_duration(v) for name, v in found.items()})
    except InvalidError as error:
        raise InvalidError("config-invalid", path=path, reason=f"[{SECTION}] {error}") from None


def plan_purge(view: View, unit: Unit, kept: Retention, now: int) -> bool:
    """Add to the unit what may go, with the leaf that says so; True when there is more of it."""
    gone: dict[str, dict[str, int]] = {}
    for name, (table, old) in rows.DELETED.items():
        time = getattr(kept, _AS.get(name, name))
        keys = [] if time is None else old(view, now - time, MOST_AT_ONCE)
        for key in keys:
            unit.delete(table, **key)
        if keys:
            gone[name] = {"count": len(keys), "before": now - time}
    if kept.refusals is not None:
        refusals = rows.old_refusals(view, now - kept.refusals, MOST_AT_ONCE)
        for row in refusals:
            reasons = write_reasons(tuple(read_reasons(row["reasons_json"])[:1]))
            unit.update(t.refusal, {"id": row["id"]}, asked_json=rows.NOTHING, reasons_json=reasons)
        if refusals:
            gone["refusals"] = {"count": len(refusals), "before": now - kept.refusals}
    if not gone:
        return False
    if "cycles" in gone:
        before = str(gone["cycles"]["before"])
        unit.upsert(t.setting, ("name",), name=rows.PURGED_CYCLES, value=before)
    unit.leaf(LeafDraft(ACTION_PURGED, LOG_KIND, LOG_KIND, extra={"purged": gone}))
    return any(item["count"] == MOST_AT_ONCE for item in gone.values())
