"""Requests on sessions, users and tokens."""

from __future__ import annotations

from typing import Any

from steelyard.client.call import Call, Pages, delete, get, part, post
from steelyard.client.views import Json


def login(user: str, password: str) -> Call[Json]:
    """A new session."""
    return post("/v1/sessions", {"user": user, "password": password}, repeatable=False)


def logout() -> Call[None]:
    """The end of the own session."""
    return delete("/v1/sessions/current")


def me() -> Call[Json]:
    """The own name and bindings."""
    return get("/v1/me")


def users() -> Pages[Json]:
    """All users."""
    return Pages("/v1/users", of="users")


def create_user(name: str, display_name: str | None) -> Call[Json]:
    """A new user."""
    body = {"name": name} | ({"display_name": display_name} if display_name else {})
    return post("/v1/users", body, repeatable=False)


def set_password(name: str, new: str, old: str | None) -> Call[None]:
    """A new password."""
    body = {"new": new} | ({"old": old} if old is not None else {})
    return post(f"/v1/users/{part(name)}/password", body, repeatable=False)


def disable_user(name: str) -> Call[Any]:
    """The end of a user."""
    return post(f"/v1/users/{part(name)}/disable")


def tokens() -> Pages[Json]:
    """Tokens without their secrets."""
    return Pages("/v1/tokens", of="tokens")


def create_token(name: str, user: str | None, expires_in: int | str | None) -> Call[Json]:
    """A new token."""
    given = {"name": name, "user": user, "expires_in": expires_in}
    body = {key: value for key, value in given.items() if value is not None}
    return post("/v1/tokens", body, repeatable=False)


def revoke_token(token_id: str) -> Call[None]:
    """The end of a token."""
    return delete(f"/v1/tokens/{part(token_id)}")
