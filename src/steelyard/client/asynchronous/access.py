"""Who we are: sessions, users, tokens, awaited."""

from __future__ import annotations

from typing import Any

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import access
from steelyard.client.views import Json


class AsyncAccess(AsyncRequests):
    """Sessions, users and tokens."""

    async def login(self, user: str, password: str) -> Json:
        """Opens a session and uses it from now on: {token, expires_at, user}."""
        opened = await self._ask(access.login(user, password))
        self._transport.token = opened["token"]
        return opened

    async def logout(self) -> None:
        """Ends the session."""
        await self._ask(access.logout())
        self._transport.token = None

    async def me(self) -> Json:
        """The own name and bindings."""
        return await self._ask(access.me())

    async def users(self) -> list[Json]:
        """All users."""
        return await self._items(access.users())

    async def create_user(self, name: str, display_name: str | None = None) -> Json:
        """A new user, with a one-time password that is shown once."""
        return await self._ask(access.create_user(name, display_name))

    async def set_password(self, name: str, new: str, old: str | None = None) -> None:
        """Sets a password; the own one needs the old."""
        await self._ask(access.set_password(name, new, old))

    async def disable_user(self, name: str) -> Any:
        """Ends a user's sessions and tokens."""
        return await self._ask(access.disable_user(name))

    async def tokens(self) -> list[Json]:
        """Tokens, without their secrets."""
        return await self._items(access.tokens())

    async def create_token(
        self, name: str, user: str | None = None, expires_in: int | str | None = None
    ) -> Json:
        """A new token, shown once. `expires_in`: seconds, or a text such as `30d`; None: until revoked."""
        return await self._ask(access.create_token(name, user, expires_in))

    async def revoke_token(self, token_id: str) -> None:
        """Ends a token."""
        await self._ask(access.revoke_token(token_id))
