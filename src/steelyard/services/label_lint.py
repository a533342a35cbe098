"""Too few labels, too many, unused, foreign: the vocabulary held against what is asked, declared and found.

Too few: constraints that somebody required and no label can express. Too many: low-level labels that a
request must name; one that is made by a template names none of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.labels import Vocabulary
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.workloads import WorkloadSpec
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import Kind, TemplateSpec
from steelyard.services.labels import load_vocabulary, named_by, named_by_request, named_by_template
from steelyard.services.pool_spec import PoolSpec
from steelyard.services.reasons import read_reasons
from steelyard.services.submission import read_spec
from steelyard.store import closings as repository
from steelyard.store.database import View
from steelyard.store.live import declared_current
from steelyard.store.store import Store

Json = dict[str, Any]
NOUN = "label"
#: Newest refusals and workloads that are looked at.
LOOKED_AT = 2000
MOST = 100


def list_all(store: Store, principal: Principal) -> Json:
    """The vocabulary in force, and the foreign keys that engines report beside it."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        vocabulary = load_vocabulary(view)
        nodes = _nodes(view)
    return {
        "version": vocabulary.version,
        "declared": vocabulary.version > 0,
        "metadata_closed": vocabulary.metadata_closed,
        "keys": [
            {
                "key": label.key,
                "values": None if label.values is None else list(label.values),
                "meaning": dict(label.meaning),
                "set_by": [who.value for who in label.set_by],
                "placement": label.placement,
                "low_level": label.low_level,
                "inherited": label.inherited,
                "nodes": sum(label.key in labels for labels in nodes),
            }
            for label in vocabulary.labels.values()
        ],
        "foreign": _foreign(vocabulary, nodes),
    }


def lint(store: Store, principal: Principal) -> Json:
    """The findings with their figures; of requests only those of projects that the principal may see."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "workload")
    with store.read() as view:
        vocabulary = load_vocabulary(view)
        nodes = _nodes(view)
        documents = _placing(view)
        templates = {d.name: d.spec for d in documents if isinstance(d.spec, TemplateSpec)}
        newest = repository.newest_specs(view, LOOKED_AT)
        specs = [read_spec(row["spec_json"]) for row in newest if seen.allows(row["project"])]
        wanted = _wanted(view, seen)
    few = _too_few(vocabulary, wanted, documents)
    many = _too_many(vocabulary, specs, documents, templates)
    unused = _unused(vocabulary, nodes, documents, specs)
    foreign = _foreign(vocabulary, nodes)
    return {
        "version": vocabulary.version,
        "keys": len(vocabulary.labels),
        "too_few": few,
        "too_many": many,
        "unused": unused,
        "foreign": foreign,
        "figures": {
            "too_few": len(few),
            "too_many_requests": many["requests"]["with_low_level"],
            "too_many_templates": many["from_templates"]["named"],
            "unused": len(unused),
            "foreign_keys": len(foreign),
            "foreign_nodes": sum(bool(vocabulary.foreign(labels)) for labels in nodes),
        },
    }


def _nodes(view: View) -> list[Mapping[str, str]]:
    return [
        msgspec.json.decode(row["labels_json"], type=dict[str, str]) for row in repository.node_labels(view)
    ]


def _placing(view: View) -> list[Document]:
    """Declared objects that name labels."""
    return [
        stored_document(kind, name, {}, msgspec.json.decode(body))
        for kind in (Kind.POOL.value, Kind.TEMPLATE.value)
        for name, body in declared_current(view, kind).items()
    ]


def _wanted(view: View, seen: Scope) -> Counter[str]:
    """Keys that refused requests required and that nobody knew, with how often."""
    found: Counter[str] = Counter()
    for row in repository.refusals_with(view, "label-unknown", LOOKED_AT):
        for reason in read_reasons(row["reasons_json"]) if seen.allows(row["project"]) else ():
            key = reason.params.get("key")
            if reason.code == "label-unknown" and reason.params.get("per") == "key" and key:
                found[str(key)] += 1
    return found


def _too_few(vocabulary: Vocabulary, wanted: Counter[str], documents: Iterable[Document]) -> list[Json]:
    """Constraints that were required and that still no label can express."""
    templates: Counter[str] = Counter()
    for document in documents:
        if isinstance(document.spec, TemplateSpec):
            templates.update({named.key for named in named_by(document)})
    keys = {key for key in {*wanted, *templates} if vocabulary.unknown(key) is not None}
    found = [{"key": key, "refused": wanted[key], "templates": templates[key]} for key in keys]
    return sorted(found, key=lambda row: (-row["refused"], row["key"]))[:MOST]  # type: ignore[operator]


def _too_many(
    vocabulary: Vocabulary,
    specs: Iterable[WorkloadSpec],
    documents: Iterable[Document],
    templates: Mapping[str, TemplateSpec],
) -> Json:
    """Low-level labels that requests had to name themselves, and that pools demand to be told."""
    plain: Counter[str] = Counter()
    own: Counter[str] = Counter()
    looked, made, with_low = 0, 0, 0
    for spec in specs:
        keys = set(vocabulary.low_level(named.key for named in named_by_request(spec)))
        if spec.template is None:
            looked += 1
            with_low += bool(keys)
            plain.update(keys)
        else:
            made += 1
            template = templates.get(spec.template.partition("@")[0])
            own.update(keys - ({n.key for n in named_by_template(template.body)} if template else set()))
    demanded = {
        key
        for document in documents
        if isinstance(document.spec, PoolSpec)
        for entry in document.spec.fit
        for key, _ in entry.needs
    }
    return {
        "requests": {"looked_at": looked, "with_low_level": with_low, "keys": _counts(plain)},
        "from_templates": {"looked_at": made, "named": sum(own.values()), "keys": _counts(own)},
        "demanded_by_pools": vocabulary.low_level(demanded),
    }


def _counts(found: Counter[str]) -> list[Json]:
    return [{"key": key, "count": count} for key, count in found.most_common(MOST)]


def _unused(
    vocabulary: Vocabulary,
    nodes: Iterable[Mapping[str, str]],
    documents: Iterable[Document],
    specs: Iterable[WorkloadSpec],
) -> list[str]:
    used = {key for labels in nodes for key in labels}
    used |= {named.key for document in documents for named in named_by(document)}
    used |= {named.key for spec in specs for named in named_by_request(spec)}
    return sorted(set(vocabulary.labels) - used)


def _foreign(vocabulary: Vocabulary, nodes: Iterable[Mapping[str, str]]) -> list[Json]:
    """Keys that engines report and the vocabulary does not have: shown, never matched."""
    found: Counter[str] = Counter()
    for labels in nodes:
        found.update(vocabulary.foreign(labels))
    return _counts(found)
