"""The declared vocabulary of labels as a frozen value, and how its document is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.model.errors import InvalidError
from steelyard.model.labels import Label, SetBy
from steelyard.services.reading import DocumentReader, check_label_key, given

VOCABULARY_NAME = "default"
MAX_KEYS = 500
MAX_VALUES = 500
LANGUAGES = ("zh", "en")
OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class VocabularySpec:
    """The labels in order, and whether those in the metadata of documents are governed, too."""

    labels: tuple[Label, ...]
    metadata_closed: bool = True

    def to_spec(self) -> dict[str, Any]:
        """The document's spec."""
        return {
            "metadata": CLOSED if self.metadata_closed else OPEN,
            "keys": [_entry(label) for label in self.labels],
        }


def _entry(label: Label) -> dict[str, Any]:
    return given(
        key=label.key,
        values=None if label.values is None else list(label.values),
        meaning=dict(label.meaning),
        setBy=[who.value for who in label.set_by],
        placement=None if label.placement else False,
        lowLevel=label.low_level or None,
    )


def read_vocabulary(reader: DocumentReader) -> VocabularySpec:
    """A vocabulary's spec. Raises InvalidError."""
    metadata = reader.text("metadata", CLOSED)
    if metadata not in (OPEN, CLOSED):
        raise InvalidError("field-invalid", path=reader.at("metadata"), expected=f"{OPEN} | {CLOSED}")
    labels = tuple(_label(inner) for inner in reader.readers("keys", MAX_KEYS))
    keys = [label.key for label in labels]
    if len(set(keys)) != len(keys):
        raise InvalidError("field-invalid", path=reader.at("keys"), expected="entries without doubles")
    return VocabularySpec(labels, metadata == CLOSED)


def _label(reader: DocumentReader) -> Label:
    key = check_label_key(reader.take("key"), reader.at("key"))
    values = reader.texts("values", MAX_VALUES) if reader.has("values") else None
    if values == ():
        raise InvalidError("field-missing", path=reader.at("values"))
    meaning = reader.reader("meaning")
    said = {lang: meaning.text(lang, limit=500) for lang in LANGUAGES}  # both: it is read in both
    meaning.finish()
    who = []
    for raw, path in reader.items("setBy", len(SetBy)):
        if not isinstance(raw, str) or raw not in set(SetBy):
            raise InvalidError("field-invalid", path=path, expected=" | ".join(item.value for item in SetBy))
        who.append(SetBy(raw))
    placement = reader.flag("placement") if reader.has("placement") else True
    low_level = reader.flag("lowLevel")
    reader.finish()
    return Label(key, values, said, tuple(dict.fromkeys(who)) or (SetBy.PLATFORM,), placement, low_level)
