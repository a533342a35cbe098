"""One request of a page: who asks, in which language, what was sent, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from steelyard.console import answers
from steelyard.console.context import Console
from steelyard.console.cookies import Preferences, form_token
from steelyard.console.menu import menu_of
from steelyard.console.speech import Speech, offered_zones
from steelyard.console.templates import environment, static_path
from steelyard.evidence.leaf import Origin
from steelyard.identity.tokens import CredentialKind
from steelyard.model.errors import SteelyardError, UnauthenticatedError
from steelyard.model.organisation import Principal
from steelyard.reports.drawing.palette import patterns
from steelyard.services.sessions import Identified

#: The languages by their own names.
LANGUAGE_NAMES = {"zh": "中文", "en": "English"}


@dataclass(slots=True)
class Visit:
    """What a page is a function of. `secret` is the session's, or the visitor's before there is one."""

    request: Request
    route: str  # the address with names in place of what was asked for
    console: Console
    preferences: Preferences
    speech: Speech
    identified: Identified | None
    secret: str
    form: dict[str, str]
    request_id: str

    @property
    def principal(self) -> Principal:
        """Who asks. Raises UnauthenticatedError for a visitor."""
        if self.identified is None:
            raise UnauthenticatedError("credential-missing")
        return self.identified.principal

    @property
    def must_change(self) -> bool:
        """Signed in with a one-time password that was not changed yet: nothing else comes before that."""
        known = self.identified
        return known is not None and known.must_change and known.kind is CredentialKind.SESSION

    @property
    def now(self) -> int:
        """µs UTC."""
        return self.console.store.now()

    @property
    def path(self) -> str:
        """The address without its query. It begins with one slash: with two, a link to it would lead to the
        host that comes after them."""
        return "/" + self.request.url.path.lstrip("/\\")

    @property
    def place(self) -> str:
        """The address with its query, to come back to."""
        query = self.request.url.query
        return f"{self.path}?{query}" if query else self.path

    def origin(self) -> Origin:
        """Where a change comes from, for its leaves: address and browser as salted hashes."""
        conceal = self.console.store.writer.secrets.conceal
        return Origin(
            client=conceal(self.request.headers.get("user-agent")),
            ip=conceal(self.request.client.host if self.request.client is not None else None),
            request_id=self.request_id or None,
        )

    def note(self, error: SteelyardError) -> None:
        """Who tried what it may not stands in the audit."""
        if self.identified is not None:
            self.console.attempts.access(
                self.principal,
                error,
                self.origin(),
                method=self.request.method,
                route=self.route,
                named=self.request.path_params,
            )

    def named(self, name: str) -> str:
        """A part of the address, such as an id."""
        return str(self.request.path_params[name])

    def asked(self, name: str, most: int = 200) -> str:
        """A parameter of the query without blanks around it; empty where it is not given."""
        return self.request.query_params.get(name, "").strip()[:most]

    def address(self, path: str | None = None, **changes: str | None) -> str:
        """This page's address with other parameters (None or empty: without), or that of another path."""
        kept = dict(self.request.query_params) if path is None else {}
        merged = {key: value for key, value in {**kept, **changes}.items() if value and key != "lang"}
        base = self.path if path is None else path
        return f"{base}?{urlencode(merged)}" if merged else base

    def in_language(self, lang: str) -> str:
        """This page in another language; the home page for the answer to a form, which has no address."""
        kept = dict(self.request.query_params) if self.request.method == "GET" else {}
        path = self.path if self.request.method == "GET" else "/"
        return f"{path}?{urlencode({**kept, 'lang': lang})}"

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page made of a template. Whatever a template may use stands here."""
        html = environment().get_template(template).render(**self._given(), **values)
        return answers.page(html, status)

    def go(self, path: str) -> Response:
        """After a form: see that page. `path` is one of ours."""
        return answers.redirect(path)

    def _given(self) -> dict[str, Any]:
        speech, preferences = self.speech, self.preferences
        given: dict[str, Callable[..., Any]] = {
            name: getattr(speech, name)
            for name in (
                "say", "word", "reason", "remedy", "factor", "brief", "why", "cause", "advice", "pointer",
                "error", "finding", "quantity", "amount", "span", "when", "count",
            )
        }  # fmt: skip
        known = self.identified
        return {
            **given,
            "visit": self,
            "lang": preferences.lang,
            "theme": preferences.theme,
            "zone": preferences.zone,
            "zones": offered_zones(preferences.zone),
            "language_names": LANGUAGE_NAMES,
            "static": static_path,
            "address": self.address,
            "form_token": form_token(self.secret),
            "user": known.principal.name if known is not None and not self.must_change else None,
            "menu": menu_of(known.principal) if known is not None else [],
            "patterns": patterns,
            "now": self.now,
        }
