"""What can go wrong between a program and a server.

SteelyardError
├── ApiError           the server answered with a problem (RFC 9457)
├── NotReachableError  nobody answered, or what answered is no Steelyard server
└── WaitTimeoutError   what was waited for did not happen in time
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.model.errors import Param, SteelyardError, UnavailableError


class ApiError(SteelyardError):
    """A problem that the server answered with.

    `code` and `params` name it, `reasons` are all that block (as the server gives them), `text` is the
    server's sentence in the language that was asked for, `refusal` the id of the refusal's record, `errors`
    all that is wrong in a document, the first of them the error itself: `{pointer, code, params}` each.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        params: dict[str, Param] = dict(problem.get("params") or {})
        code = str(problem.get("code") or f"http-{status}")
        super().__init__(code, **{str(key): value for key, value in params.items()})
        self.status = status
        self.reasons: list[dict[str, Any]] = list(problem.get("reasons") or ())
        self.errors: list[dict[str, Any]] = list(problem.get("errors") or ())
        self.text = str(problem.get("detail") or problem.get("title") or code)
        self.refusal: str | None = problem.get("refusal")
        self.request_id: str | None = problem.get("request_id")
        self.body = dict(problem)


class NotReachableError(UnavailableError):
    """Nobody answered at the address."""


class WaitTimeoutError(UnavailableError):
    """What was waited for did not happen in time."""
