"""What stands before a page: a form must come from a page of ours, and lead to a place of ours."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request

from steelyard.console.cookies import is_form_token
from steelyard.model.errors import ForbiddenError

TOKEN = "form_token"
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
_MAX_PATH = 2000


def check_form(request: Request, secret: str, form: dict[str, str]) -> None:
    """Raises ForbiddenError `form-foreign` for a form that no page of this session sent: the browser says so
    (Sec-Fetch-Site, else Origin), or the token does not fit."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    if foreign or not is_form_token(secret, form.get(TOKEN, "")):
        raise ForbiddenError("form-foreign")


def local_path(path: str | None, otherwise: str = "/") -> str:
    """A path of this server to lead on to; `otherwise` for any other address."""
    if path and len(path) <= _MAX_PATH and _LOCAL.fullmatch(path):
        return path
    return otherwise
