"""The documents that a command was given, each with where it stands, so that an error can name its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.cli import table
from steelyard.model.errors import InvalidError, SteelyardError

KINDS = (
    "Cluster", "Pool", "Team", "Project", "Namespace", "PriorityClass", "Cohort", "Queue", "Quota", "Routing",
    "Template", "Binding", "LabelVocabulary", "SupportDocument", "Extension", "ObservationSource",
    "RegisterEntry", "SchedulingPolicy", "ConversionTable",
)  # fmt: skip
WORKLOAD = "Workload"
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Source:
    """A document and its place: the file, and its number there from 1. `listed`: its folder was named."""

    file: str
    number: int
    document: dict[str, Any]
    listed: bool = False

    @property
    def kind(self) -> str | None:
        """Its kind, where it has one."""
        kind = self.document.get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def name(self) -> str | None:
        """Its name, where it has one."""
        metadata = self.document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None


def read(files: Sequence[str]) -> list[Source]:
    """The documents of files and folders. Raises InvalidError, also where there is none."""
    load = table.load("steelyard.client.documents:read_documents")
    found = [
        Source(file, number, document, listed)
        for file, listed in _files(files)
        for number, document in enumerate(load(file), 1)
    ]
    if not found:
        raise InvalidError("documents-none", files=", ".join(files)[:200])
    return found


def _files(files: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each file, and for a folder its YAML files by name."""
    for name in files:
        folder = Path(name)
        if name == "-" or not folder.is_dir():
            yield name, False
            continue
        try:
            listed = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS and path.is_file())
        except OSError as error:
            raise InvalidError("file-unreadable", path=name, reason=error.strerror or "") from None
        yield from ((str(path), True) for path in listed)


@contextmanager
def placed(sources: Sequence[Source]) -> Iterator[None]:
    """Adds to an error about one of the documents where that document stands."""
    try:
        yield
    except SteelyardError as error:
        source = _source(error, sources)
        if source is not None:
            label = "/".join(part[:80] for part in (source.kind, source.name) if part)
            error.place = {  # type: ignore[attr-defined]
                "file": source.file, "number": source.number, "label": label or None,
            }  # fmt: skip
        raise


def _source(error: SteelyardError, sources: Sequence[Source]) -> Source | None:
    """The document that an error is about: by its index, else by its kind and name."""
    index = error.params.get("document")
    if isinstance(index, int) and not isinstance(index, bool):
        return sources[index] if 0 <= index < len(sources) else None
    if len(sources) == 1 and getattr(error, "status", None) in (400, 422):
        return sources[0]
    kind, name = error.params.get("kind"), error.params.get("name")
    same = (source for source in sources if (source.kind, source.name) == (kind, name))
    return next(same, None) if kind is not None else None
