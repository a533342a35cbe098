"""Signing in and out, changing the password, and what a reader prefers."""

from __future__ import annotations

from hmac import compare_digest

from starlette.responses import Response

from steelyard.console.cookies import LANGUAGE, THEME, THEMES, ZONE, drop_secret, keep, set_secret
from steelyard.console.guard import local_path
from steelyard.console.serve import Page
from steelyard.console.speech import zone_names
from steelyard.console.visit import Visit
from steelyard.locale import LANGUAGES
from steelyard.model.errors import SteelyardError, UnauthenticatedError
from steelyard.model.units import SECOND
from steelyard.services import sessions
from steelyard.services.sessions import SESSION_LIFE
from steelyard.services.users import change_password

MAX_NAME, MAX_PASSWORD = 200, 1024


def sign_in_page(visit: Visit) -> Response:
    """The form; who is signed in is led on."""
    following = local_path(visit.asked("next", 2000))
    if visit.identified is not None:
        return visit.go(following)
    return visit.show("sign_in.html", next=following, name="", failed=None)


def sign_in(visit: Visit) -> Response:
    """Open a session and lead on. A refusal tells nothing but that it is one."""
    name, password = visit.form.get("name", "").strip(), visit.form.get("password", "")
    following = local_path(visit.form.get("next"))
    try:
        if len(name) > MAX_NAME or len(password) > MAX_PASSWORD:
            raise UnauthenticatedError("login-refused")
        issued = visit.console.logins.login(name, password, origin=visit.origin())
    except SteelyardError as error:
        failed = visit.speech.error(error.code, error.params)
        status = 401 if isinstance(error, UnauthenticatedError) else 503
        return visit.show("sign_in.html", status, next=following, name=name[:MAX_NAME], failed=failed)
    response = visit.go(following)
    set_secret(visit.request, response, issued.secret, seconds=SESSION_LIFE // SECOND)
    return response


def sign_out(visit: Visit) -> Response:
    """End the session."""
    if visit.identified is not None:
        sessions.logout(visit.console.store, visit.identified, origin=visit.origin())
    response = visit.go("/sign-in")
    drop_secret(visit.request, response)
    return response


def password_page(visit: Visit) -> Response:
    """The form to change one's own password."""
    return _password(visit)


def password(visit: Visit) -> Response:
    """Change it. Every other session of the account ends, this one goes on."""
    old, new, again = (visit.form.get(name, "") for name in ("old", "new", "again"))
    if not compare_digest(new.encode(), again.encode()):
        return _password(visit, visit.speech.say("account.not-the-same"))
    known, who = visit.identified, visit.principal
    assert known is not None
    try:
        change_password(
            visit.console.store,
            who,
            who.name,
            new,
            old,
            keep_credential=known.credential_id,
            origin=visit.origin(),
        )
    except SteelyardError as error:
        return _password(visit, visit.speech.error(error.code, error.params))
    return visit.go("/?done=password")


def _password(visit: Visit, failed: str | None = None) -> Response:
    status = 200 if failed is None else 422
    return visit.show("password.html", status, failed=failed, must=visit.must_change)


def preferences(visit: Visit) -> Response:
    """Keep language, theme and zone, and come back."""
    response = visit.go(local_path(visit.form.get("next")))
    for field, cookie, known in (
        ("lang", LANGUAGE, LANGUAGES),
        ("theme", THEME, THEMES),
        ("zone", ZONE, zone_names()),
    ):
        if visit.form.get(field) in known:
            keep(visit.request, response, cookie, visit.form[field])
    return response


PAGES = [
    Page("GET", "/sign-in", sign_in_page, open=True),
    Page("POST", "/sign-in", sign_in, open=True, slow=True),
    Page("POST", "/sign-out", sign_out, open=True),
    Page("GET", "/password", password_page, unchanged=True),
    Page("POST", "/password", password, unchanged=True, slow=True),
    Page("POST", "/preferences", preferences, open=True),
]
