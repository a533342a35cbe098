"""Versions as entity tags: `ETag: "3"` in answers, `If-Match: "3"` in requests."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header

from steelyard.model.errors import InvalidError

_FORM = re.compile(r'(?:W/)?"?([0-9]{1,18})"?')


async def if_match(
    if_match: Annotated[str | None, Header(description='The version that is meant, e.g. `"3"`')] = None,
) -> int | None:
    """The version that the caller means; None where it names none (or `*`). Raises InvalidError."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _FORM.fullmatch(if_match.strip())
    if found is None:
        raise InvalidError("if-match-invalid")
    return int(found[1])


IfMatchDep = Annotated[int | None, Depends(if_match)]


def etag(version: int) -> dict[str, str]:
    """The header of an answer that shows this version."""
    return {"ETag": f'"{version}"'}
