"""Answers: pages with their policy, redirects, and the page of an error."""

from __future__ import annotations

from starlette.responses import HTMLResponse, RedirectResponse, Response

from steelyard.model.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RefusedError,
    SteelyardError,
    UnauthenticatedError,
    UnavailableError,
)

#: No inline script or style, nothing of another host, no frame around us, forms to ourselves only.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATUS: dict[type[SteelyardError], int] = {
    InvalidError: 400,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    RefusedError: 422,
    UnavailableError: 503,
}


_OF_CODE = {"method-not-allowed": 405, "body-too-large": 413}


def status_of(error: SteelyardError) -> int:
    """The HTTP status of an error."""
    if error.code in _OF_CODE:
        return _OF_CODE[error.code]
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def page(html: str, status: int = 200) -> Response:
    """A page."""
    return HTMLResponse(html, status, headers=HEADERS)


def redirect(path: str) -> Response:
    """See another page of ours (303). `path` is local."""
    return RedirectResponse(path, 303, headers=HEADERS)
