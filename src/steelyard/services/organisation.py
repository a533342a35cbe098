"""The organisation over time, as usage and admission need it."""

from __future__ import annotations

from steelyard.model.organisation import OrgPlace
from steelyard.model.orghistory import OrgHistory
from steelyard.services.cached import Cached
from steelyard.services.derived import ORG_VERSION
from steelyard.store.database import View
from steelyard.store.declared import counters, edges


def _load(view: View) -> OrgHistory:
    return OrgHistory(edges(view))


_cache = Cached(_load, ORG_VERSION)


def load_history(view: View) -> OrgHistory:
    """All edges, open and closed. Kept until `org_version` moves."""
    return _cache.get(view)


def place_now(view: View, namespace: str, now: int) -> OrgPlace | None:
    """Where a namespace stands; None where there is none."""
    return load_history(view).place(namespace, now)


def org_version(view: View) -> int:
    """The version of the whole organisation."""
    return counters(view).get(ORG_VERSION, 0)
