"""The evidence log for auditors: leaves, checkpoints, proofs, checks, bundles."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import OriginDep, Services, ServicesDep
from steelyard.api.lanes import Lane
from steelyard.evidence.leaf import Origin
from steelyard.model.errors import UnavailableError
from steelyard.model.organisation import Principal
from steelyard.services import audit
from steelyard.services.bundle_export import export_bundle, read_pieces, spooled_tar
from steelyard.services.checks import run_checks
from steelyard.services.evidence_reads import reads_of

router = APIRouter(prefix="/v1/audit", tags=["audit"])
#: What reads the whole house is done one after another: each takes memory by the house's size.
WHOLE_HOUSE = Lane("whole-house", workers=1, waiting=20, code="too-many-audits")
Seq = Annotated[int, Path(ge=0, le=2**53)]


class WindowBody(BaseModel):
    """The window of a bundle's usage, µs UTC; null: from the first device on, until now."""

    model_config = ConfigDict(extra="forbid")
    start: int | None = Field(None, alias="from", ge=0, le=2**62)
    end: int | None = Field(None, alias="to", ge=0, le=2**62)


@router.get("/leaves")
def leaves(
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    stream: Annotated[str | None, Query(max_length=300)] = None,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="seq of the last leaf seen")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> dict[str, Any]:
    """A stream, the newest leaf first; without a stream, the whole log in its order."""
    found = audit.leaves(services.store, who, stream, after, limit)
    _note(services, who, "leaves", stream, origin)
    return found


@router.get("/checkpoint")
def checkpoint(who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> dict[str, Any]:
    """The newest signed checkpoint."""
    found = audit.newest(services.store, who, services.signer)
    _note(services, who, "checkpoint", None, origin)
    return found


@router.get("/proof/{seq}", response_class=PlainTextResponse)
def proof(seq: Seq, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> PlainTextResponse:
    """Inclusion proof of a leaf (C2SP tlog-proof)."""
    found = audit.proof(services.store, who, seq, services.signer)
    _note(services, who, "record", str(seq), origin)
    return PlainTextResponse(found)


def _note(services: Services, who: Principal, what: str, subject: str | None, origin: Origin) -> None:
    reads_of(services.store).note(who, what, subject, origin)


@router.get("/consistency")
def consistency(
    who: PrincipalDep,
    services: ServicesDep,
    start: Annotated[int, Query(alias="from", ge=0, le=2**53)],
    end: Annotated[int | None, Query(alias="to", ge=0, le=2**53)] = None,
) -> dict[str, Any]:
    """Proof that the later log begins with the earlier (RFC 6962)."""
    return audit.consistency(services.store, who, start, end)


@router.post("/checks")
async def checks(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Runs every check of conservation and of the log. Changes nothing."""
    audit.authorise_audit(who)
    return await WHOLE_HOUSE.run(partial(run_checks, services.store, who))


@router.post("/bundle", response_class=Response, responses={200: {"content": {"application/x-tar": {}}}})
async def bundle(
    who: PrincipalDep, services: ServicesDep, origin: OriginDep, body: WindowBody | None = None
) -> Response:
    """An evidence bundle as a tar file, signed with the log's key."""
    audit.authorise_audit(who)
    if services.signer is None:
        raise UnavailableError("log-key-elsewhere")
    asked = body or WindowBody()
    archive = await WHOLE_HOUSE.run(partial(_archive, services, who, asked, origin))
    return StreamingResponse(
        read_pieces(archive),
        media_type="application/x-tar",
        headers={"Content-Disposition": 'attachment; filename="steelyard-evidence.tar"'},
    )


def _archive(services: Services, who: Principal, asked: WindowBody, origin: Origin) -> BinaryIO:
    _note(services, who, "bundle", None, origin)  # before, so that it stands in the bundle itself
    beside = services.extra.get("folder")
    files = export_bundle(services.store, who, services.signer, asked.start, asked.end, beside=beside)
    return spooled_tar(files, beside)
