"""What a failed write means: the database's own trouble, or one unit that could never be written."""

from __future__ import annotations

from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from steelyard.model.errors import ConflictError, InvalidError, UnavailableError


def is_trouble(error: BaseException) -> bool:
    """True when the database itself failed (full disk, lost connection): every unit fails with it."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if type(error) is DatabaseError:  # SQLite: the file is damaged, or no database
        return True
    return isinstance(error, OperationalError | InternalError | PoolTimeout)


def is_lock_wait(error: BaseException) -> bool:
    """True when a lock was not had in time: PostgreSQL's lock_not_available."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == "55P03"


def told(error: BaseException) -> BaseException:
    """The coded error a caller is given; what is not the database's stays what it was."""
    if is_trouble(error):
        return UnavailableError("database-failed", detail=brief(error))
    if isinstance(error, IntegrityError):
        return ConflictError("object-exists")
    if isinstance(error, DBAPIError):
        return InvalidError("canonical-type", type=brief(error))
    if isinstance(error, OverflowError | UnicodeError):
        return InvalidError("canonical-type", type=type(error).__name__)
    return error


def brief(error: BaseException) -> str:
    """The driver's word on it, without parameters (they may hold what must not be in a log)."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return type(error).__name__
    cause = type(error.orig).__name__
    known = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    full = isinstance(error, OperationalError) and "full" in str(error.orig)
    return f"{cause}: disk full" if full else f"{cause}: {known}" if known else cause
