"""Cookies of the console: the session, what a reader prefers, and the token that forms carry.

The session's cookie holds the session's secret. It is HttpOnly and SameSite=Strict for this host alone; where
the console is served by https its name begins with `__Host-` and it is Secure. A form carries a digest of the
secret, which a page of another site can't know and from which the secret can't be had.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import Response

from steelyard.console.speech import zone_names
from steelyard.locale import LANGUAGES, negotiate

SESSION = "steelyard_session"
#: Of somebody who has not signed in yet, for the token of the form that signs in.
VISITOR = "steelyard_visitor"
LANGUAGE, THEME, ZONE = "steelyard_lang", "steelyard_theme", "steelyard_zone"
THEMES = ("auto", "light", "dark")
_YEAR = 365 * 86_400


def is_secure(request: Request) -> bool:
    """Whether the reader's browser speaks https with us, or with the proxy before us."""
    return request.url.scheme == "https"


def _name(request: Request, plain: str) -> str:
    return f"__Host-{plain}" if is_secure(request) else plain


def read_secret(request: Request, plain: str = SESSION) -> str:
    """What the cookie holds; empty where there is none."""
    return request.cookies.get(_name(request, plain), "")


def set_secret(
    request: Request, response: Response, secret: str, plain: str = SESSION, seconds: int | None = None
) -> None:
    """Give the browser a secret that only we get back."""
    response.set_cookie(
        _name(request, plain),
        secret,
        max_age=seconds,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )


def drop_secret(request: Request, response: Response, plain: str = SESSION) -> None:
    """Take it away."""
    response.delete_cookie(
        _name(request, plain), path="/", secure=is_secure(request), httponly=True, samesite="strict"
    )


def new_visitor() -> str:
    """A secret for somebody who has not signed in."""
    return secrets.token_urlsafe(32)


def form_token(secret: str) -> str:
    """The token that forms of this session carry; empty without a secret."""
    return sha256(b"steelyard-form:" + secret.encode()).hexdigest() if secret else ""


def is_form_token(secret: str, given: str) -> bool:
    """Whether a form came from a page of this session."""
    return bool(secret) and compare_digest(form_token(secret).encode(), given.encode())


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a reader chose, or what its browser asks for. `theme` auto follows the system."""

    lang: str
    theme: str
    zone: str

    @staticmethod
    def of(request: Request) -> Preferences:
        """`?lang=`, else the cookies, else Accept-Language."""
        asked = request.query_params.get("lang", "")
        kept = request.cookies.get(LANGUAGE, "")
        lang = next((name for name in (asked, kept) if name in LANGUAGES), None)
        theme, zone = request.cookies.get(THEME, ""), request.cookies.get(ZONE, "")
        return Preferences(
            lang or negotiate(request.headers.get("accept-language")),
            theme if theme in THEMES else "auto",
            zone if zone in zone_names() else "UTC",
        )


def keep(request: Request, response: Response, name: str, value: str) -> None:
    """Keep a preference for a year. It is no secret."""
    response.set_cookie(
        name, value, max_age=_YEAR, path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )
