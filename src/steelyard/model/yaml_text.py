"""YAML texts of declared documents, read strictly.

Plain values only, at most 10 MB and 32 levels; aliases may not multiply; a key twice is an error with its
line, as is a key that is no text. `yes`, `on`, dates and `1:30` stay texts (as in YAML 1.2).
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from steelyard.model.errors import InvalidError

MAX_BYTES = 10 * 1024 * 1024
MAX_DEPTH = 32
MAX_VALUES = 200_000
_TAG = "tag:yaml.org,2002:"
_PLAIN = {"str", "int", "float", "bool", "null", "map", "seq", "merge"}
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """The safe loader with fewer guesses about what a bare word means."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
    ("merge", r"^(?:<<)$", "<"),
):
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(_pattern), list(_first))


def load_documents(data: bytes, source: str) -> list[dict[str, Any]]:
    """The documents of a text, empty ones left out. `source` names it in errors. Raises InvalidError."""
    if len(data) > MAX_BYTES:
        raise InvalidError("yaml-too-large", file=source, limit=MAX_BYTES // 1024 // 1024)
    found = []
    try:
        text = data.decode("utf-8-sig")
        _check_depth(text, source)
        loader = _Loader(text)
        try:
            while loader.check_node():
                found.append(_document(loader, loader.get_node(), source))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem or error.context)[:200]
        line = mark.line + 1 if mark is not None else None
        raise InvalidError("yaml-syntax", file=source, line=line, problem=problem) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidError("yaml-syntax", file=source, line=None, problem=str(error)[:200]) from None
    return [document for document in found if document is not None]


def _check_depth(text: str, source: str) -> None:
    """Before anything recursive looks at it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_BASE)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise InvalidError("yaml-too-deep", file=source, line=line, limit=MAX_DEPTH)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if count > 2 * MAX_VALUES:
            raise InvalidError("yaml-too-many-values", file=source, limit=MAX_VALUES)


def _document(loader: Any, node: yaml.Node, source: str) -> dict[str, Any] | None:
    if _size(node, source, {}, set()) > MAX_VALUES:
        raise InvalidError("yaml-too-many-values", file=source, limit=MAX_VALUES)
    value = loader.construct_document(node)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidError("yaml-not-a-mapping", file=source, line=node.start_mark.line + 1)
    return value


def _size(node: yaml.Node, source: str, known: dict[int, int], open_nodes: set[int]) -> int:
    """Number of values with every alias written out. Refuses doubles, odd keys and numbers on the way."""
    if id(node) in known:
        return known[id(node)]
    line = node.start_mark.line + 1
    if id(node) in open_nodes:
        raise InvalidError("yaml-alias-of-itself", file=source, line=line)
    if node.tag.removeprefix(_TAG) not in _PLAIN:
        raise InvalidError("yaml-tag-unknown", file=source, line=line, tag=node.tag[:60])
    open_nodes.add(id(node))
    size = 1
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, source)
        size += sum(1 + _size(value, source, known, open_nodes) for _, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(value, source, known, open_nodes) for value in node.value)
    elif _is_odd_number(node):
        raise InvalidError("yaml-number-invalid", file=source, line=line, value=node.value[:60])
    open_nodes.discard(id(node))
    known[id(node)] = size
    return size


def _check_keys(node: yaml.MappingNode, source: str) -> None:
    seen = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag.endswith(":merge"):
            continue
        if not key.tag.endswith(":str"):
            shown = key.value[:60] if isinstance(key.value, str) else "…"
            raise InvalidError("yaml-key-not-text", file=source, line=line, key=shown)
        if key.value in seen:
            raise InvalidError("yaml-duplicate-key", file=source, line=line, key=key.value[:60])
        seen.add(key.value)


def _is_odd_number(node: yaml.Node) -> bool:
    """A number that JSON can't hold, or of which nobody reads all digits."""
    if node.tag.endswith(":int"):
        return len(node.value) > 20
    return node.tag.endswith(":float") and not math.isfinite(_float(node.value))


def _float(text: str) -> float:
    try:
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return math.inf
