"""Declared documents: from what a person wrote to frozen values, strictly.

Unknown keys are refused with their path (`spec.limits[0].foo`), names, quantities and list lengths are
bounded. Nothing here looks at other objects: `services.references` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from steelyard.engines.local.isolation import AUTO, HOST, MODES, NETWORKS, NONE, Wish
from steelyard.engines.simulated.spec import parse_simulation
from steelyard.model.errors import InvalidError
from steelyard.model.health import OnDeviceFailure
from steelyard.model.organisation import RoleName
from steelyard.model.resources import DeviceClass, EngineKind
from steelyard.model.units import DAY, HOUR
from steelyard.services.device_document import read_devices
from steelyard.services.faults import Faults, all_of
from steelyard.services.kinds import (
    ROUTING_NAME,
    BindingSpec,
    ClusterSpec,
    Kind,
    NamespaceSpec,
    ProjectSpec,
    Spec,
    TeamSpec,
    TemplateSpec,
)
from steelyard.services.policy_document import (
    read_cohort,
    read_priority_class,
    read_queue,
    read_quota,
    read_routing,
)
from steelyard.services.pool_document import read_pool, with_known_purpose
from steelyard.services.queue_spec import read_weight
from steelyard.services.reading import DocumentReader, shown
from steelyard.services.scheduling_spec import (
    CONVERSION_NAME,
    SCHEDULING_NAME,
    read_conversion_table,
    read_scheduling_policy,
)
from steelyard.services.support_specs import (
    read_extension,
    read_register_entry,
    read_source,
    read_support_document,
)
from steelyard.services.vocabulary_spec import VOCABULARY_NAME, read_vocabulary
from steelyard.services.workload_document import check_template_body

MAX_DOCUMENTS = 2000
MAX_SHARED = 64
MAX_SPEC_BYTES = 4 * 1024 * 1024
#: Kinds of which there is one object, by its name.
_ONE_OF_ITS_KIND = {
    Kind.ROUTING: ROUTING_NAME,
    Kind.LABEL_VOCABULARY: VOCABULARY_NAME,
    Kind.SCHEDULING_POLICY: SCHEDULING_NAME,
    Kind.CONVERSION_TABLE: CONVERSION_NAME,
}
_ENGINES = (EngineKind.LOCAL, EngineKind.SIMULATED)
_WHOLE_INSTALLATION = frozenset({RoleName.ADMINISTRATOR, RoleName.AUDITOR, RoleName.MONITOR})


@dataclass(frozen=True, slots=True)
class Document:
    """A declared object. `body` is the normal form of its spec, `digest` the SHA-256 of kind, name,
    labels and body."""

    kind: Kind
    name: str
    labels: tuple[tuple[str, str], ...]
    spec: Spec
    body: dict[str, Any] = field(compare=False)
    digest: str = field(compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """(kind, name)."""
        return self.kind.value, self.name


def parse_documents(raw: object) -> list[Document]:
    """All documents of a list. Raises InvalidError; `document` in its parameters says which, from 0. Its
    `faults` are all that is wrong in all of them."""
    if not isinstance(raw, list):
        raise InvalidError("field-invalid", path="documents", expected="list")
    if len(raw) > MAX_DOCUMENTS:
        raise InvalidError("field-out-of-bounds", path="documents", low=0, high=MAX_DOCUMENTS)
    found: dict[tuple[str, str], Document] = {}
    wrong: dict[int, InvalidError] = {}
    for index, entry in enumerate(raw):
        try:
            document = parse_document(entry)
        except InvalidError as error:
            wrong[index] = error
            continue
        if document.key in found:
            kind, name = document.kind.value, document.name
            wrong[index] = InvalidError("document-doubled", document=index, kind=kind, name=name)
        found[document.key] = document
    if wrong:
        raise all_of(wrong)
    return list(found.values())


def parse_document(raw: object) -> Document:
    """One document: kind, metadata {name, labels?}, spec. Raises InvalidError with all that is wrong."""
    try:
        return make_document(*_read(raw, None))
    except InvalidError as error:
        faults = Faults()
        faults.add(error)
    try:  # once more, to its end
        _read(raw, faults)
    except InvalidError as error:
        faults.add(error)
    raise faults.error(raw)


def _read(raw: object, faults: Faults | None) -> tuple[Kind, str, tuple[tuple[str, str], ...], Spec]:
    outer = _outer(raw, faults)
    kind = _kind(outer.text("kind"))
    metadata = outer.reader("metadata")
    name, labels = metadata.name("name"), metadata.labels()
    metadata.finish()
    reader = outer.reader("spec")
    outer.finish()
    spec = _PARSERS[kind](reader)
    reader.finish()
    if name != _ONE_OF_ITS_KIND.get(kind, name):
        outer.wrong("field-invalid", "metadata.name", expected=_ONE_OF_ITS_KIND[kind])
    return kind, name, labels, spec


def make_document(kind: Kind, name: str, labels: tuple[tuple[str, str], ...], spec: Spec) -> Document:
    """A document of parsed parts."""
    body = spec.to_spec()
    try:
        text = json.dumps([kind.value, name, list(labels), body], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidError("field-invalid", path="spec", expected="plain values") from None
    if len(text) > MAX_SPEC_BYTES:
        raise InvalidError("field-out-of-bounds", path="spec", low=0, high=MAX_SPEC_BYTES)
    return Document(kind, name, labels, spec, body, sha256(text.encode()).hexdigest())


def stored_document(kind: str, name: str, labels: dict[str, str], body: dict[str, Any]) -> Document:
    """A document as it stands in the store. What was accepted once is read by the same parser."""
    if kind == Kind.POOL:
        body = with_known_purpose(body)
    return parse_document({"kind": kind, "metadata": {"name": name, "labels": labels}, "spec": body})


def _outer(raw: object, faults: Faults | None) -> DocumentReader:
    if not isinstance(raw, dict) or any(not isinstance(key, str) for key in raw):
        raise InvalidError("field-invalid", path="document", expected="mapping")
    return _TopReader(raw, "", faults)


class _TopReader(DocumentReader):
    """The outermost mapping: its keys have no prefix."""

    def at(self, key: str) -> str:
        return key


def _kind(text: str) -> Kind:
    if text not in {kind.value for kind in Kind}:
        raise InvalidError("kind-unknown", kind=shown(text))
    return Kind(text)


# --- resources ------------------------------------------------------------------------------------
#: Ten years.
_LONGEST_KEPT = 3660 * DAY


def _cluster(reader: DocumentReader) -> ClusterSpec:
    engine = reader.choice("engine", EngineKind)
    if engine not in _ENGINES:
        expected = " | ".join(item.value for item in _ENGINES)
        raise InvalidError("field-invalid", path=reader.at("engine"), expected=expected)
    reserve: list[tuple[DeviceClass, int]] = []
    if reader.has("reserve"):
        inner = reader.reader("reserve")
        for device_class in (DeviceClass.CPU, DeviceClass.MEMORY):
            amount = inner.amount(device_class.value, device_class.value, 0)
            reserve += [(device_class, amount)] if amount else []
        inner.finish()
    simulation = None
    if engine is EngineKind.SIMULATED:
        simulation = reader.take("simulation")
        parse_simulation(simulation, reader.at("simulation"))
    within = reader.span("releaseWithin", None, longest=HOUR)
    isolation = None
    if engine is EngineKind.LOCAL and reader.has("isolation"):
        isolation = _isolation(reader.reader("isolation"))
    limit = free = None
    if engine is EngineKind.LOCAL and reader.has("workFolder"):
        inner = reader.reader("workFolder")
        limit, free = (inner.optional_amount(key, "memory") for key in ("sizeLimit", "minFree"))
        inner.finish()
    work = artifacts = logs = None
    if engine is EngineKind.LOCAL and reader.has("keep"):
        inner = reader.reader("keep")
        work, artifacts = (inner.span(key, None, longest=_LONGEST_KEPT) for key in ("work", "artifacts"))
        logs = inner.optional_amount("logs", "memory")
        inner.finish()
    devices = None
    if engine is EngineKind.LOCAL and reader.has("devices"):
        devices = read_devices(reader.reader("devices"))
    return ClusterSpec(
        engine, tuple(reserve), simulation, reader.optional_text("owner"), within, isolation, limit or None,
        free, work, artifacts, logs or None, devices,
        reader.choice("onDeviceFailure", OnDeviceFailure, OnDeviceFailure.KEEP),
    )  # fmt: skip


def _isolation(reader: DocumentReader) -> Wish:
    """How a local cluster keeps projects apart."""
    mode = _word(reader, "mode", (AUTO, *MODES), AUTO)
    network = _word(reader, "network", NETWORKS, HOST)
    shared = reader.texts("sharedFolders", MAX_SHARED, 1024)
    for index, path in enumerate(shared):
        pure = PurePosixPath(path)
        if not pure.is_absolute() or ".." in pure.parts or str(pure) == "/":
            where = f"{reader.at('sharedFolders')}[{index}]"
            raise InvalidError("field-invalid", path=where, expected="absolute folder")
    if mode == NONE and network != HOST:
        raise InvalidError("field-invalid", path=reader.at("network"), expected=HOST)
    reader.finish()
    return Wish(mode, network, shared)


def _word(reader: DocumentReader, key: str, words: tuple[str, ...], default: str) -> str:
    word = reader.text(key, default)
    if word not in words:
        raise InvalidError("field-invalid", path=reader.at(key), expected=" | ".join(words))
    return word


# --- organisation ---------------------------------------------------------------------------------
def _team(reader: DocumentReader) -> TeamSpec:
    return TeamSpec(reader.optional_text("displayName"), reader.optional_text("owner"), read_weight(reader))


def _project(reader: DocumentReader) -> ProjectSpec:
    return ProjectSpec(reader.name("team"), reader.optional_text("displayName"), read_weight(reader))


def _namespace(reader: DocumentReader) -> NamespaceSpec:
    return NamespaceSpec(
        reader.name("project"), reader.optional_name("environment"), reader.optional_text("costCentre"),
        read_weight(reader),
    )  # fmt: skip


def _binding(reader: DocumentReader) -> BindingSpec:
    spec = BindingSpec(reader.name("user"), reader.choice("role", RoleName), reader.optional_name("project"))
    if spec.project is not None and spec.role in _WHOLE_INSTALLATION:
        raise InvalidError("role-not-of-a-project", path=reader.at("project"), role=spec.role.value)
    return spec


def _template(reader: DocumentReader) -> TemplateSpec:
    version = reader.take("version")
    if isinstance(version, int) and not isinstance(version, bool) and 0 <= version < 10**9:
        version = str(version)
    version = DocumentReader({"version": version}, reader.path).text("version", limit=63)
    body = reader.take("spec")
    check_template_body(body, reader.at("spec"))
    return TemplateSpec(version, body)


_PARSERS: dict[Kind, Callable[[DocumentReader], Spec]] = {
    Kind.CLUSTER: _cluster,
    Kind.POOL: read_pool,
    Kind.TEAM: _team,
    Kind.PROJECT: _project,
    Kind.NAMESPACE: _namespace,
    Kind.PRIORITY_CLASS: read_priority_class,
    Kind.COHORT: read_cohort,
    Kind.QUEUE: read_queue,
    Kind.QUOTA: read_quota,
    Kind.ROUTING: read_routing,
    Kind.SCHEDULING_POLICY: read_scheduling_policy,
    Kind.CONVERSION_TABLE: read_conversion_table,
    Kind.TEMPLATE: _template,
    Kind.BINDING: _binding,
    Kind.LABEL_VOCABULARY: read_vocabulary,
    Kind.SUPPORT_DOCUMENT: read_support_document,
    Kind.EXTENSION: read_extension,
    Kind.OBSERVATION_SOURCE: read_source,
    Kind.REGISTER_ENTRY: read_register_entry,
}
