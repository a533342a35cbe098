"""Who we are: sessions, users, tokens."""

from __future__ import annotations

from typing import Any

from steelyard.client.calls import access
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Access(Requests):
    """Sessions, users and tokens."""

    def login(self, user: str, password: str) -> Json:
        """Opens a session and uses it from now on: {token, expires_at, user}."""
        opened = self._ask(access.login(user, password))
        self._transport.token = opened["token"]
        return opened

    def logout(self) -> None:
        """Ends the session."""
        self._ask(access.logout())
        self._transport.token = None

    def me(self) -> Json:
        """The own name and bindings."""
        return self._ask(access.me())

    def users(self) -> list[Json]:
        """All users."""
        return self._items(access.users())

    def create_user(self, name: str, display_name: str | None = None) -> Json:
        """A new user, with a one-time password that is shown once."""
        return self._ask(access.create_user(name, display_name))

    def set_password(self, name: str, new: str, old: str | None = None) -> None:
        """Sets a password; the own one needs the old."""
        self._ask(access.set_password(name, new, old))

    def disable_user(self, name: str) -> Any:
        """Ends a user's sessions and tokens."""
        return self._ask(access.disable_user(name))

    def tokens(self) -> list[Json]:
        """Tokens, without their secrets."""
        return self._items(access.tokens())

    def create_token(
        self, name: str, user: str | None = None, expires_in: int | str | None = None
    ) -> Json:
        """A new token, shown once. `expires_in`: seconds, or a text such as `30d`; None: until revoked."""
        return self._ask(access.create_token(name, user, expires_in))

    def revoke_token(self, token_id: str) -> None:
        """Ends a token."""
        self._ask(access.revoke_token(token_id))
