"""Errors as records: a code and parameters. The sentence is made late, by `locale`, in zh or en.

SteelyardError
├── InvalidError           the request itself is wrong (400)
├── UnauthenticatedError   no credential, or one that does not hold (401)
├── ForbiddenError         authenticated, but no binding grants this (403)
├── NotFoundError          no such object, or none in the caller's scope (404)
├── ConflictError          the object changed meanwhile, or the state does not allow it (409)
├── RefusedError           a rule refuses the request; carries all reasons (422)
└── UnavailableError       something of ours is not there now; trying again may help (503)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from steelyard.model.reasons import Reason

Param: TypeAlias = str | int | bool | None


class SteelyardError(Exception):
    """An error that a person will read: `code` names its sentence, `params` fill it."""

    def __init__(self, code: str, /, **params: Param) -> None:
        super().__init__(code, params)
        self.code = code
        self.params: dict[str, Param] = params

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.params.items())
        return f"{self.code}({inner})"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a document. `pointer`: a JSON pointer (RFC 6901) to it; empty: the whole."""

    pointer: str
    code: str
    params: Mapping[str, Param]


class InvalidError(SteelyardError):
    """The request is malformed; trying it again unchanged can't succeed. `faults`: of a document all that is
    wrong in it; the error itself is the first of them."""

    faults: tuple[Fault, ...] = ()


class UnauthenticatedError(SteelyardError):
    """The credential is missing, wrong or expired."""


class ForbiddenError(SteelyardError):
    """No binding of the principal grants the verb on the object."""


class NotFoundError(SteelyardError):
    """The object does not exist within what the caller may see."""


class ConflictError(SteelyardError):
    """The object's version or phase does not allow the change."""


class RefusedError(SteelyardError):
    """A rule refuses the request; `reasons` are all that block it, the binding one first."""

    def __init__(self, code: str, reasons: Sequence[Reason] = (), /, **params: Param) -> None:
        super().__init__(code, **params)
        self.reasons = tuple(reasons)


class UnavailableError(SteelyardError):
    """A part that is needed is not there now (database, runner, cluster, lease)."""
