"""Confidential values of leaves: the leaf holds H(salt ‖ value), a side table the salt and the value.

A value can be disclosed one by one, or erased without breaking the tree. Its row is written in the
transaction of the first leaf that names it, so that no digest is in the log without its opening.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from steelyard.evidence.confidential import SALT_BYTES, conceal
from steelyard.evidence.leaf import LeafDraft

#: Where a leaf's detail names a person.
_CONFIDENTIAL = ("user",)
MAX_KEPT = 10_000
MAX_LENGTH = 400


class Opening(NamedTuple):
    """What opens a concealed value."""

    digest: str
    salt: bytes
    value: str


class Secrets:
    """Conceals values for the leaves of this server. Thread-safe; a value keeps its digest for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_value: OrderedDict[str, Opening] = OrderedDict()
        self._unwritten: OrderedDict[str, Opening] = OrderedDict()

    def conceal(self, value: str | None) -> dict[str, str] | None:
        """The form that stands in a leaf; None stays None."""
        if not value:
            return None
        value = value[:MAX_LENGTH].encode("ascii", "replace").decode()
        with self._lock:
            known = self._by_value.get(value)
            if known is None:
                salt = secrets.token_bytes(SALT_BYTES)
                known = Opening(conceal(value, salt)["h"], salt, value)
                self._by_value[value] = self._unwritten[known.digest] = known
                for kept in (self._by_value, self._unwritten):
                    while len(kept) > MAX_KEPT:
                        kept.popitem(last=False)
            return {"h": known.digest}

    def openings(self, drafts: Iterable[LeafDraft]) -> list[Opening]:
        """Openings that these leaves need and that no committed row holds yet."""
        if not self._unwritten:
            return []
        wanted: dict[str, Opening] = {}
        with self._lock:
            for draft in drafts:
                for part in _concealed(draft):
                    opening = self._unwritten.get(part["h"])
                    if opening is not None:
                        wanted[opening.digest] = opening
        return [wanted[digest] for digest in sorted(wanted)]

    def written(self, openings: Iterable[Opening]) -> None:
        """These are committed."""
        with self._lock:
            for opening in openings:
                self._unwritten.pop(opening.digest, None)


def _concealed(draft: LeafDraft) -> Iterator[Mapping[str, str]]:
    """Everything in a leaf that `conceal` made."""
    parts = [] if draft.origin is None else [draft.origin.client, draft.origin.ip]
    parts += [(draft.extra or {}).get(key) for key in _CONFIDENTIAL]
    yield from (part for part in parts if isinstance(part, dict) and "h" in part)
