"""The scope filter that every list, count and search carries: what a caller may not see is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Column, ColumnElement, Connection, Result, Select, bindparam, true

from steelyard.model.errors import InvalidError
from steelyard.model.organisation import Scope

Record: TypeAlias = dict[str, Any]
MAX_PAGE = 500


def visible(column: Column[Any], scope: Scope) -> ColumnElement[bool]:
    """Rows whose project the scope allows. Rows without a project are seen by an unlimited scope only."""
    if scope.projects is None:
        return true()
    return column.in_(sorted(scope.projects))


class Scoped:
    """A query that is built once, in two forms: for an unlimited scope, and for one that names its projects.
    What it asks for are bound parameters; building it anew each time would cost more than its answer."""

    def __init__(self, query: Select[Any], project: Column[Any]) -> None:
        self._every = query
        self._some = query.where(project.in_(bindparam("scope_projects", expanding=True)))

    def run(self, connection: Connection, scope: Scope, **values: Any) -> Result[Any]:
        """Rows that the scope allows. Rows without a project are seen by an unlimited scope only."""
        if scope.projects is None:
            return connection.execute(self._every, values)
        return connection.execute(self._some, {**values, "scope_projects": sorted(scope.projects)})


class _HasMapping(Protocol):
    @property
    def _mapping(self) -> Mapping[Any, Any]: ...


def record(row: _HasMapping) -> Record:
    """A row as a plain dictionary by column name (`class`, not `device_class`)."""
    return dict(row._mapping)


def page_size(limit: int) -> int:
    """The limit itself, 1…500. Raises InvalidError for any other."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidError("limit-invalid", limit=limit, most=MAX_PAGE)
    return limit


def contains(column: Column[str], text: str) -> ColumnElement[bool]:
    """A search for literal text: `%` and `_` stand for themselves."""
    return column.contains(text, autoescape=True)


def like(text: str) -> str:
    """The same as the pattern of a LIKE whose escape is `/`."""
    return "%" + text.replace("/", "//").replace("%", "/%").replace("_", "/_") + "%"
