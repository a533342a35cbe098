"""Passwords: argon2id hashes, a least length, and the same work for accounts that do not exist.

Parameters follow RFC 9106's second recommended option scaled to a small server (19 MiB, two passes), and
at most two hashes are worked on at a time, so that a flood of logins can't take the machine's memory.
"""

from __future__ import annotations

import secrets
import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from steelyard.model.errors import InvalidError

MIN_LENGTH = 10
MAX_LENGTH = 1024
_ONE_TIME_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_WORKING = threading.BoundedSemaphore(2)
#: The hash of nothing anybody knows: verified where there is no account, so that the time tells nothing.
_NOBODY = _HASHER.hash(secrets.token_hex(16))


def hash_password(password: str) -> str:
    """The argon2id hash. Raises InvalidError `password-too-short` or `password-too-long`."""
    if len(password) < MIN_LENGTH:
        raise InvalidError("password-too-short", least=MIN_LENGTH)
    if len(password) > MAX_LENGTH:
        raise InvalidError("password-too-long", most=MAX_LENGTH)
    with _WORKING:
        return _HASHER.hash(password)


def verify_password(stored: str | None, password: str) -> bool:
    """True when the password fits. Without a stored hash the answer is False, after the same work."""
    with _WORKING:
        try:
            fits = _HASHER.verify(stored or _NOBODY, password[:MAX_LENGTH])
        except (VerificationError, InvalidHashError):
            return False
    return fits and stored is not None


def one_time_password() -> str:
    """A random password to hand over once: 100 bits, in groups that can be read aloud."""
    letters = [secrets.choice(_ONE_TIME_ALPHABET) for _ in range(20)]
    return "-".join("".join(letters[start : start + 5]) for start in range(0, 20, 5))
