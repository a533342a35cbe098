"""Options whose values are a closed list."""

from __future__ import annotations

from enum import StrEnum

from steelyard.model.errors import InvalidError


def one_of(value: str | None, option: str, kind: type[StrEnum], *more: str) -> None:
    """Raises InvalidError that names the option and lists what may stand there."""
    allowed = [*(item.value for item in kind), *more]
    if value is not None and value not in allowed:
        raise InvalidError("argument-invalid", name=option, given=value[:60], expected=" | ".join(allowed))
