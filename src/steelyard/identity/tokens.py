"""Secrets of tokens and sessions: 256 random bits, of which only a SHA-256 digest is ever stored."""

from __future__ import annotations

import re
import secrets
from enum import StrEnum
from hashlib import sha256

PREFIX = "sy_"
_FORM = re.compile(r"sy_[A-Za-z0-9_-]{43}")


class CredentialKind(StrEnum):
    """A token lives until it is revoked or expires, a session for hours."""

    TOKEN = "token"
    SESSION = "session"


def new_secret() -> str:
    """A fresh secret, `sy_` and 43 characters. It is shown once and never stored."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is stored and looked up. A random 256-bit secret needs no salt and no slow hash."""
    return sha256(secret.encode()).hexdigest()


def well_formed(secret: str) -> bool:
    """False spares the database what can't be one of ours."""
    return _FORM.fullmatch(secret) is not None
