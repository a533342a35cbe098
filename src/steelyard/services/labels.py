"""The vocabulary in force: the declared one, else the built-in one with what was in use before it; and what
documents and requests that name a label are held against.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec
import yaml

from steelyard.model.errors import InvalidError
from steelyard.model.labels import Label, SetBy, Unknown, Vocabulary
from steelyard.model.organisation import Principal
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.workloads import WorkloadSpec
from steelyard.scheduling.admission import joined
from steelyard.services.cached import Cached
from steelyard.services.derived import LABEL_VERSION
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import Kind, TemplateSpec
from steelyard.services.pool_spec import PoolSpec
from steelyard.services.scheduling_spec import SchedulingPolicySpec
from steelyard.services.vocabulary_spec import VOCABULARY_NAME, VocabularySpec
from steelyard.store import declared as declared_rows
from steelyard.store.database import View
from steelyard.store.installation import read_setting
from steelyard.store.live import counters, declared_current
from steelyard.store.store import Store

#: Setting: keys that were in use before there was a vocabulary, as a JSON list.
INHERITED_KEYS = "label-keys-inherited"
_KEY = (Kind.LABEL_VOCABULARY.value, VOCABULARY_NAME)
_OF_ROLES = ("nodeLabels", "needs")


class Named(NamedTuple):
    """A label that a document or a request names, and where."""

    path: str
    key: str
    value: str | None


@lru_cache(maxsize=1)
def built_in() -> Mapping[str, Label]:
    """The labels that hold until a vocabulary is declared."""
    raw = yaml.safe_load((resources.files("steelyard.services") / "labels.yaml").read_text(encoding="utf-8"))
    found = [
        Label(
            entry["key"],
            None,
            entry["meaning"],
            tuple(SetBy(who) for who in entry["set_by"]),
            low_level=bool(entry.get("low_level")),
        )
        for entry in raw
    ]
    return {label.key: label for label in found}


def default_vocabulary(inherited: Iterable[str] = ()) -> Vocabulary:
    """The built-in vocabulary, with keys that were in use before it: any value of theirs is known."""
    labels = dict(built_in())
    labels.update((key, Label(key, inherited=True)) for key in inherited if key not in labels)
    return Vocabulary(labels)


def declared_vocabulary(spec: VocabularySpec, version: int) -> Vocabulary:
    """A declared vocabulary."""
    return Vocabulary({label.key: label for label in spec.labels}, spec.metadata_closed, version)


def _load(view: View) -> Vocabulary:
    body = declared_current(view, Kind.LABEL_VOCABULARY.value).get(VOCABULARY_NAME)
    if body is None:
        return default_vocabulary(_inherited(view))
    spec = stored_document(*_KEY, {}, msgspec.json.decode(body)).spec
    assert isinstance(spec, VocabularySpec)
    return declared_vocabulary(spec, counters(view).get(LABEL_VERSION, 0))


def _inherited(view: View) -> list[str]:
    found: list[str] = json.loads(read_setting(view, INHERITED_KEYS) or "[]")
    return found


_cache = Cached(_load, LABEL_VERSION)


def load_vocabulary(view: View) -> Vocabulary:
    """The vocabulary in force."""
    return _cache.get(view)


def with_foreign(store: Store, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes, each with the keys of its labels that are foreign: shown, never matched."""
    with store.read() as view:
        vocabulary = load_vocabulary(view)
    return [{**node, "foreign_labels": vocabulary.foreign(node["labels"])} for node in nodes]


# --- what is named where ---------------------------------------------------------------------------------
def named_by(document: Document) -> Iterator[Named]:
    """Labels by which a document places something."""
    spec = document.spec
    if isinstance(spec, PoolSpec):
        for key, value in spec.selector:
            yield Named(f"spec.selector.labels.{key}", key, value)
        for key, values in spec.environment:
            yield from (Named(f"spec.environment.{key}", key, value) for value in values)
        for index, entry in enumerate(spec.fit):
            for key, values in entry.needs:
                yield from (Named(f"spec.fit[{index}].needs.{key}", key, value) for value in values)
    elif isinstance(spec, SchedulingPolicySpec):
        for index, level in enumerate(spec.levels):
            yield Named(f"spec.topology.levels[{index}]", level, None)
    elif isinstance(spec, TemplateSpec):
        yield from named_by_template(spec.body)


def named_by_template(body: Mapping[str, Any]) -> Iterator[Named]:
    """Labels that the roles of a template name, as far as they have the form of labels."""
    roles = body.get("roles")
    for index, role in enumerate(roles if isinstance(roles, list) else []):
        for part in _OF_ROLES:
            found = role.get(part) if isinstance(role, dict) else None
            for key, value in found.items() if isinstance(found, dict) else ():
                if isinstance(key, str) and isinstance(value, str):
                    yield Named(f"spec.spec.roles[{index}].{part}.{key}", key, value)


def named_by_request(spec: WorkloadSpec) -> Iterator[Named]:
    """Labels by which a request is to be placed."""
    for index, role in enumerate(spec.roles):
        for part, labels in (("nodeLabels", role.request.node_labels), ("needs", role.request.needs)):
            yield from (Named(f"spec.roles[{index}].{part}.{key}", key, value) for key, value in labels)


# --- checks ----------------------------------------------------------------------------------------------
def check_documents(
    view: View, world: Mapping[tuple[str, str], Document], changed: Iterable[Document]
) -> None:
    """Raises InvalidError `label-unknown` for the first label of the changed documents that the vocabulary
    of the world does not have. A changed vocabulary is held against every pool."""
    documents = list(changed)
    if not documents:
        return
    vocabulary = _of_world(view, world)
    if any(document.kind is Kind.LABEL_VOCABULARY for document in documents):
        documents += [other for other in world.values() if isinstance(other.spec, PoolSpec)]
    for document in documents:
        for named in named_by(document):
            _check(document, named, vocabulary.unknown(named.key, named.value))
        for key, value in document.labels if vocabulary.metadata_closed else ():
            _check(
                document,
                Named(f"metadata.labels.{key}", key, value),
                vocabulary.unknown(key, value, placement=False),
            )


def _of_world(view: View, world: Mapping[tuple[str, str], Document]) -> Vocabulary:
    document = world.get(_KEY)
    if document is None:
        return default_vocabulary(_inherited(view))
    assert isinstance(document.spec, VocabularySpec)
    return declared_vocabulary(document.spec, declared_rows.counters(view).get(LABEL_VERSION, 0))


def _check(document: Document, named: Named, unknown: Unknown | None) -> None:
    if unknown is not None:
        raise InvalidError(
            "label-unknown",
            kind=document.kind.value,
            name=document.name,
            path=named.path[:200],
            key=unknown.key[:100],
            value=None if unknown.what == "key" else (unknown.value or "")[:100],
            known=joined(unknown.known),
        )


def unknown_labels(vocabulary: Vocabulary, spec: WorkloadSpec, principal: Principal) -> tuple[Reason, ...]:
    """Why a request is refused for its labels; empty where it is not."""
    found = []
    for named in named_by_request(spec):
        unknown = vocabulary.unknown(named.key, named.value)
        if unknown is not None:
            found.append(_reason(unknown, named.path))
    if vocabulary.metadata_closed:
        for key, value in spec.labels:
            unknown = vocabulary.unknown(key, value, placement=False)
            if unknown is not None:
                found.append(_reason(unknown, f"metadata.labels.{key}"))
            elif SetBy.SUBMITTER not in vocabulary.labels[key].set_by and not principal.is_administrator:
                found.append(_not_yours(vocabulary.labels[key]))
    return tuple(found[:16])


def _reason(unknown: Unknown, path: str) -> Reason:
    value = None if unknown.what == "key" else unknown.value
    params: dict[str, str | int | None] = {
        "key": unknown.key[:100], "value": value, "known": joined(unknown.known), "path": path[:200],
        "per": unknown.what,
    }  # fmt: skip
    return Reason(ReasonCode.LABEL_UNKNOWN, "admission", params=params)


def _not_yours(label: Label) -> Reason:
    who = joined(item.value for item in label.set_by)
    params: dict[str, str | int | None] = {"key": label.key, "set_by": who, "per": "set-by"}
    return Reason(ReasonCode.LABEL_UNKNOWN, "admission", params=params)
