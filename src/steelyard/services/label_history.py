"""When labels changed: the vocabulary with who and why, and each value on each node from when to when."""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.identity.authorise import authorise
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.kinds import Kind
from steelyard.services.labels import built_in
from steelyard.services.vocabulary_spec import VOCABULARY_NAME
from steelyard.store import closings as repository
from steelyard.store import declared as declared_rows
from steelyard.store.database import View
from steelyard.store.past import leaf_bodies
from steelyard.store.store import Store
from steelyard.store.workloads import account_names

Json = dict[str, Any]
NOUN = "label"
MOST_VERSIONS = 500


class _Actor(msgspec.Struct):
    id: str


class _Object(msgspec.Struct):
    version_after: int | None


class _Stream(msgspec.Struct):
    name: str
    prev_seq: int | None


class _Leaf(msgspec.Struct):
    actor: _Actor
    object: _Object
    streams: tuple[_Stream, ...]
    detail: dict[str, Any] | None
    ts: int


_leaf = msgspec.json.Decoder(_Leaf).decode


def history(store: Store, principal: Principal, key: str | None = None) -> Json:
    """Changes of the vocabulary with who and why, and on which nodes each value stood from when to when."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        return {"vocabulary": _vocabulary_history(view, key), "nodes": _node_history(view, key)}


def _vocabulary_history(view: View, key: str | None) -> list[Json]:
    rows = declared_rows.history(view, Scope.system(), Kind.LABEL_VOCABULARY.value, VOCABULARY_NAME)
    told = _leaves(view, rows[0].head.seq if rows else None)
    names = account_names(view, {leaf.actor.id for leaf in told.values()})
    changes: list[Json] = []
    before: dict[str, Json] = {name: {} for name in built_in()}
    for row in reversed(rows):
        entries = {entry["key"]: entry for entry in row.spec["keys"]}
        leaf = told.get(row.version)
        by = None if leaf is None else names.get(leaf.actor.id, leaf.actor.id)
        why = None if leaf is None or leaf.detail is None else leaf.detail.get("reason")
        said = {"at": row.valid_from, "until": row.valid_to, "version": row.version, "by": by, "reason": why}
        for name in sorted({*entries, *before}):
            if entries.get(name) != before.get(name) and key in (None, name):
                change = "removed" if name not in entries else "added" if name not in before else "changed"
                changes.append({"key": name, "change": change, "entry": entries.get(name), **said})
        before = entries
    return changes[::-1]


def _leaves(view: View, seq: int | None) -> dict[int, _Leaf]:
    """Version → the leaf that made it, of the vocabulary's own stream, from its head back."""
    found: dict[int, _Leaf] = {}
    stream = f"object/{Kind.LABEL_VOCABULARY.value.lower()}/{VOCABULARY_NAME}"
    while seq is not None and seq >= 0 and len(found) < MOST_VERSIONS:
        leaf = _leaf(leaf_bodies(view, [seq])[seq])
        if leaf.object.version_after is not None:
            found[leaf.object.version_after] = leaf
        seq = next(entry.prev_seq for entry in leaf.streams if entry.name == stream)
    return found


def _node_history(view: View, key: str | None) -> list[Json]:
    """Each value of each label of each node, from when to when, and the cluster whose engine said so."""
    found: list[Json] = []
    standing: dict[tuple[str, str, str], Json] = {}
    for row in repository.node_label_history(view):
        labels = msgspec.json.decode(row["labels_json"], type=dict[str, str])
        place = (row["cluster"], row["name"])
        for name in labels if key is None else {key} & {*labels}:
            entry = standing.get((*place, name))
            if entry is not None and (entry["value"], entry["until"]) == (labels[name], row["valid_from"]):
                entry["until"] = row["valid_to"]
            else:
                entry = {"key": name, "value": labels[name], "cluster": row["cluster"], "node": row["name"],
                         "from": row["valid_from"], "until": row["valid_to"],
                         "set_by": row["set_by"]}  # fmt: skip
                standing[(*place, name)] = entry
                found.append(entry)
    return sorted(found, key=lambda entry: (entry["key"], entry["cluster"], entry["node"], entry["from"]))
