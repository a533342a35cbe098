"""A node or a device by the name that somebody gives: its id, its own name, or with its cluster before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.ids import PREFIXES, parse, render
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
_DEVICE, _NODE = PREFIXES["device"] + "_", PREFIXES["node"] + "_"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a flag can stand."""

    kind: str  # node | device
    id: int
    cluster: str
    node_id: int
    node: str
    uid: str | None = None

    @property
    def shown(self) -> str:
        """Its id as people see it."""
        return render(self.kind, self.id)

    def view(self) -> Json:
        """As shown."""
        return {
            "kind": self.kind,
            "id": self.shown,
            "cluster": self.cluster,
            "node": self.node,
            "node_id": render("node", self.node_id),
            "uid": self.uid,
        }


def place_named(view: View, name: str) -> Place:
    """By `nd_…`, `dv_…`, a node's name, a device's UID, or either after `CLUSTER/`.

    Raises NotFoundError, InvalidError `place-ambiguous` where several clusters have it.
    """
    if name.startswith(_NODE):
        row = repository.get_node(view, parse("node", name))
        found = [] if row is None else [_of_node(row)]
    elif name.startswith(_DEVICE):
        row = repository.get_device(view, parse("device", name))
        found = [] if row is None or row["retired_at"] is not None else [_of_device(row)]
    else:
        found = [_of_node(row) for row in repository.nodes_named(view, name)]
        found += [_of_device(row) for row in repository.places_of_uid(view, name)]
    if not found:
        raise NotFoundError("not-found", kind="device", id=name[:80])
    if len(found) > 1:
        clusters = ", ".join(sorted({place.cluster for place in found}))
        raise InvalidError("place-ambiguous", name=name[:80], clusters=clusters[:200])
    return found[0]


def _of_node(row: Record) -> Place:
    return Place("node", row["id"], row["cluster"], row["id"], row["name"])


def _of_device(row: Record) -> Place:
    return Place("device", row["id"], row["cluster"], row["node_id"], row["node"], row["uid"])
