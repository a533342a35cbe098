"""A session's way to the server: the SDK with the session's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.cli.config import load_settings
from steelyard.client import Client

if TYPE_CHECKING:
    from steelyard.cli.session import Session


def connect(session: Session) -> Client:
    """The client; nothing is sent yet. Raises InvalidError for a broken configuration."""
    settings = load_settings(session.environ, url=session.url)
    return Client(settings.url, settings.token, session.lang)
