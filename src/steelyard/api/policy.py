"""The policy: what other documents would have meant for a window of the past."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.desk import DeskDep
from steelyard.api.idempotency import json_answer
from steelyard.api.lanes import QUESTIONS
from steelyard.api.texts import with_texts
from steelyard.services.policy_preview import policy_preview

router = APIRouter(prefix="/v1", tags=["policy"])
Instant = Annotated[int | None, Field(ge=0, le=2**62)]


class Preview(BaseModel):
    """Declared documents as they would be, and the window `[since, until)` in µs UTC."""

    model_config = ConfigDict(extra="forbid")
    documents: list[Any]
    since: Instant = None
    until: Instant = None


@router.post("/policy:preview")
async def preview(
    asked: Preview, who: PrincipalDep, services: ServicesDep, desk: DeskDep, lang: LanguageDep
) -> Response:
    """A recorded window run under these documents, beside the same under what was in force: who would have
    started earlier or later, evictions, refusals, use above limits. Changes nothing."""
    preview_of = partial(policy_preview, services.store, who, desk.snapshots)
    found = await QUESTIONS.run(partial(preview_of, asked.documents, asked.since, asked.until))
    return json_answer(with_texts(found, lang))
