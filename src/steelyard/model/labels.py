"""The vocabulary of labels: which keys there are, which values, what they mean, who may set them.

A key that is not in it is foreign on an engine's node, where it is shown and never matched, and an error
in a document or a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class SetBy(StrEnum):
    """Closed: who may set a label."""

    PLATFORM = "platform"
    GOVERNANCE = "governance"
    ENGINEERING = "engineering"
    SUBMITTER = "submitter"
    ENGINE = "engine"  # an engine reports it of its nodes


@dataclass(frozen=True, slots=True)
class Label:
    """One key. `values` None: any value. `low_level`: a common request should not have to name it."""

    key: str
    values: tuple[str, ...] | None = None
    meaning: Mapping[str, str] = field(default_factory=dict)  # language → text
    set_by: tuple[SetBy, ...] = (SetBy.PLATFORM,)
    placement: bool = True
    low_level: bool = False
    inherited: bool = False  # in use before there was a vocabulary


class Unknown(NamedTuple):
    """What of a label the vocabulary does not have: its `key`, its `value`, or that it may be placed by."""

    what: str  # key | value | placement
    key: str
    value: str | None
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All labels by key. `metadata_closed`: labels in the metadata of documents are governed, too.

    `version` 0: nothing was declared, and the built-in one holds.
    """

    labels: Mapping[str, Label] = field(default_factory=dict)
    metadata_closed: bool = False
    version: int = 0

    def unknown(self, key: str, value: str | None = None, *, placement: bool = True) -> Unknown | None:
        """What is wrong with a label that a document or a request names; None where nothing is."""
        label = self.labels.get(key)
        if label is None:
            return Unknown("key", key, value, tuple(sorted(self.labels)))
        if placement and not label.placement:
            return Unknown("placement", key, value, ())
        if value is not None and label.values is not None and value not in label.values:
            return Unknown("value", key, value, label.values)
        return None

    def foreign(self, labels: Mapping[str, str]) -> list[str]:
        """Keys found on a node that the vocabulary does not have, or with a value that it does not have."""
        return sorted(
            key for key, value in labels.items() if self.unknown(key, value, placement=False) is not None
        )

    def low_level(self, keys: Iterable[str]) -> list[str]:
        """Of these keys those that a common request should not have to name."""
        return sorted({key for key in keys if key in self.labels and self.labels[key].low_level})
