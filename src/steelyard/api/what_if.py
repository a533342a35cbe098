"""What would come of changes: asked of the scheduler itself, with nothing written."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep
from steelyard.api.desk import DeskDep
from steelyard.api.idempotency import json_answer
from steelyard.api.lanes import QUESTIONS
from steelyard.api.texts import with_texts
from steelyard.services import what_if

router = APIRouter(prefix="/v1", tags=["what-if"])
_ABOUT = (
    "Changes in their order, submits last, each a mapping of one key: submit (a Workload document, or "
    "{document, copies}), limit ({node, subject, value}), documents (laid over those in force), "
    "add_devices ({flavor, count}), cordon, uncordon (a node), end (a workload's id)"
)


@router.post("/what-if")
async def ask(
    changes: Annotated[list[Any], Body(embed=True, description=_ABOUT)],
    who: PrincipalDep,
    desk: DeskDep,
    lang: LanguageDep,
) -> Response:
    """Who would start, wait, be evicted or get a place kept, beside what happens without the changes. Changes
    nothing. Whoever does not see the whole installation may ask about submits to their own projects; others'
    work has no name then."""
    found = await QUESTIONS.run(partial(what_if.ask, desk, who, changes))
    return json_answer(with_texts(found, lang))
