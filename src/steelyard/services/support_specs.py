"""Support documents, extensions, sources of observation and the register of workloads as frozen values, and
how their documents are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from steelyard.model.errors import InvalidError
from steelyard.model.resources import DeviceClass
from steelyard.model.support import ExtensionType, LinkState, SourceType
from steelyard.model.units import DAY
from steelyard.model.workloads import WorkloadKind
from steelyard.services.pool_document import read_values
from steelyard.services.pool_spec import Values, write_values
from steelyard.services.reading import DocumentReader, given, write_amount

SpecBody: TypeAlias = dict[str, Any]
_DATE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01]))?")
_LINK = re.compile(r"https?://[!-~]{1,2000}")
_SECOND = 1_000_000
MAX_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Scope:
    """What a support document speaks of."""

    device_class: DeviceClass | None = None
    family: str | None = None
    models: tuple[str, ...] = ()
    environment: Values = ()

    def to_spec(self) -> SpecBody:
        """The document's mapping."""
        return given(
            **{"class": None if self.device_class is None else self.device_class.value},
            family=self.family,
            models=list(self.models),
            environment=write_values(self.environment),
        )


@dataclass(frozen=True, slots=True)
class LinkCheck:
    """What an operator found at the address: HTTP status and the page's title."""

    state: LinkState = LinkState.UNCHECKED
    status: int | None = None
    title: str | None = None
    checked: str | None = None  # a date

    def to_spec(self) -> SpecBody:
        """The document's mapping."""
        return given(state=self.state.value, status=self.status, title=self.title, checked=self.checked)


@dataclass(frozen=True, slots=True)
class SupportDocumentSpec:
    """A document that somebody issued about support. It verifies nothing."""

    issuer: str
    date: str
    scope: Scope
    about: str | None = None
    link: str | None = None
    link_check: LinkCheck = LinkCheck()

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            issuer=self.issuer, date=self.date, scope=self.scope.to_spec(), about=self.about, link=self.link,
            linkCheck=self.link_check.to_spec(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExtensionSpec:
    """A piece that something is spoken to through: an entry point, and no proof of support."""

    type: ExtensionType
    version: str | None = None
    cluster: str | None = None
    family: str | None = None
    owner: str | None = None
    maintained_by: str | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            type=self.type.value, version=self.version, cluster=self.cluster, family=self.family,
            owner=self.owner, maintainedBy=self.maintained_by,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObservationSourceSpec:
    """What is measured, how often (µs), how long it is kept (µs), and when the source is blind."""

    type: SourceType
    measures: tuple[str, ...]
    interval: int | None = None
    retention: int | None = None
    cluster: str | None = None
    owner: str | None = None
    blind: str | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            type=self.type.value, measures=list(self.measures), interval=_span(self.interval),
            retention=_span(self.retention), cluster=self.cluster, owner=self.owner, blind=self.blind,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RegisterEntrySpec:
    """A real workload of the coming period: its kind, what it needs, in what environment, how it is taken.

    `boundaries` says what it does not cover; without it the entry is a plan and answers nothing.
    """

    kind: WorkloadKind
    requests: tuple[tuple[DeviceClass, int], ...]
    needs: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    owner: str | None = None
    period: str | None = None
    accepted_by: str | None = None
    boundaries: str | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            kind=self.kind.value,
            requests={cls.value: write_amount(cls, amount) for cls, amount in self.requests},
            needs=dict(self.needs), models=list(self.models), owner=self.owner, period=self.period,
            acceptedBy=self.accepted_by, boundaries=self.boundaries,
        )  # fmt: skip


def _span(micros: int | None) -> str | None:
    return None if micros is None else f"{micros // _SECOND}s"


# --- reading -----------------------------------------------------------------------------------------
def read_support_document(reader: DocumentReader) -> SupportDocumentSpec:
    """A support document's spec. Raises InvalidError."""
    link = reader.optional_text("link", limit=2000)
    if link is not None and not _LINK.fullmatch(link):
        raise InvalidError("field-invalid", path=reader.at("link"), expected="http(s)://…")
    return SupportDocumentSpec(
        reader.text("issuer"), _date(reader, "date"), _scope(reader.reader("scope")),
        reader.optional_text("about", limit=MAX_TEXT), link, _link_check(reader.reader("linkCheck")),
    )  # fmt: skip


def _date(reader: DocumentReader, key: str) -> str:
    found = reader.text(key, limit=10)
    if not _DATE.fullmatch(found):
        raise InvalidError("field-invalid", path=reader.at(key), expected="YYYY-MM | YYYY-MM-DD")
    return found


def _scope(reader: DocumentReader) -> Scope:
    device_class = reader.choice("class", DeviceClass) if reader.has("class") else None
    found = Scope(
        device_class, reader.optional_text("family", limit=63), reader.texts("models", 64),
        read_values(reader, "environment"),
    )  # fmt: skip
    reader.finish()
    return found


def _link_check(reader: DocumentReader) -> LinkCheck:
    status = reader.integer("status", None, low=100, high=599) if reader.has("status") else None
    found = LinkCheck(
        reader.choice("state", LinkState, LinkState.UNCHECKED), status, reader.optional_text("title"),
        _date(reader, "checked") if reader.has("checked") else None,
    )  # fmt: skip
    if found.state is not LinkState.UNCHECKED and found.checked is None:
        raise InvalidError("field-missing", path=reader.at("checked"))
    reader.finish()
    return found


def read_extension(reader: DocumentReader) -> ExtensionSpec:
    """An extension's spec. Raises InvalidError."""
    return ExtensionSpec(
        reader.choice("type", ExtensionType), reader.optional_text("version", limit=63),
        reader.optional_name("cluster"), reader.optional_text("family", limit=63),
        reader.optional_text("owner"), reader.optional_text("maintainedBy"),
    )  # fmt: skip


def read_source(reader: DocumentReader) -> ObservationSourceSpec:
    """An observation source's spec. Raises InvalidError."""
    return ObservationSourceSpec(
        reader.choice("type", SourceType), reader.texts("measures", 64),
        _seconds(reader, "interval"), _seconds(reader, "retention"),
        reader.optional_name("cluster"), reader.optional_text("owner"),
        reader.optional_text("blind", limit=MAX_TEXT),
    )  # fmt: skip


def _seconds(reader: DocumentReader, key: str) -> int | None:
    """A time in whole seconds, in µs."""
    found = reader.span(key, None, longest=3660 * DAY)
    if found is not None and found % _SECOND:
        raise InvalidError("field-invalid", path=reader.at(key), expected="whole seconds")
    return found


def read_register_entry(reader: DocumentReader) -> RegisterEntrySpec:
    """A register entry's spec. Raises InvalidError."""
    inner = reader.reader("requests")
    amounts = [(cls, inner.optional_amount(cls.value, cls.value)) for cls in DeviceClass]
    inner.finish()
    requests = tuple((cls, amount) for cls, amount in amounts if amount)
    if not requests:
        raise InvalidError("field-missing", path=reader.at("requests"))
    return RegisterEntrySpec(
        reader.choice("kind", WorkloadKind), requests, reader.labels("needs"), reader.texts("models", 64),
        reader.optional_text("owner"), reader.optional_text("period"),
        reader.optional_text("acceptedBy", limit=MAX_TEXT),
        reader.optional_text("boundaries", limit=MAX_TEXT),
    )  # fmt: skip
