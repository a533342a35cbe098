"""Evidence for auditors: where the log stands, its streams and records with their proofs, checks, bundles."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from steelyard.console.answers import HEADERS
from steelyard.console.serve import Page
from steelyard.console.usage import said_of
from steelyard.console.usage_window import window_of
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError, NotFoundError, UnavailableError
from steelyard.services import audit, audit_pages
from steelyard.services.bundle_export import export_bundle, read_pieces, spooled_tar
from steelyard.services.checks import run_checks
from steelyard.services.evidence_reads import reads_of

Json = dict[str, Any]
FIRST_LOOK, PAGE_SIZE, STREAMS = 15, 50, 100
MAX_SEQ = 2**53


def evidence_page(visit: Visit) -> Response:
    """Checkpoint, keys, the newest records, and what can be asked for."""
    return _first_page(visit)


def _first_page(visit: Visit, status: int = 200, failed: str | None = None) -> Response:
    store, who = visit.console.store, visit.principal
    leaves = audit_pages.newest_leaves(store, who, None, FIRST_LOOK)
    _note(visit, "leaves", None)
    return visit.show(
        "evidence.html",
        status,
        state=audit_pages.state(store, who, visit.console.signer),
        leaves=leaves,
        names=audit_pages.actor_names(store, who, leaves),
        kinds=[(kind, visit.speech.say(f"evidence.kind.{kind}")) for kind in audit_pages.STREAM_KINDS],
        failed=failed,
    )


def leaf_list(visit: Visit) -> Response:
    """The log or one stream, the newest record first."""
    store, who, stream = visit.console.store, visit.principal, visit.asked("stream", 300)
    before = _number(visit.asked("before", 20), None)
    if stream:
        found = audit.leaves(store, who, stream, before, PAGE_SIZE)
        leaves, following, head = found["items"], found["next"], found["head"]
    else:
        leaves = audit_pages.newest_leaves(store, who, before, PAGE_SIZE)
        more = len(leaves) == PAGE_SIZE and leaves[-1]["seq"] > 0
        following, head = leaves[-1]["seq"] if more else None, None
    _note(visit, "leaves", stream or None)
    return visit.show(
        "leaves.html",
        stream=stream,
        head=head,
        leaves=leaves,
        names=audit_pages.actor_names(store, who, leaves),
        following=following,
    )


def stream_list(visit: Visit) -> Response:
    """Streams by name."""
    kind = visit.asked("kind")
    found, following = audit_pages.streams(
        visit.console.store,
        visit.principal,
        kind=kind if kind in audit_pages.STREAM_KINDS else None,
        text=visit.asked("q"),
        after=visit.asked("after", 300),
        limit=STREAMS,
    )
    kinds = [(name, visit.speech.say(f"evidence.kind.{name}")) for name in audit_pages.STREAM_KINDS]
    return visit.show("streams.html", streams=found, following=following, kind=kind, kinds=kinds)


def leaf_page(visit: Visit) -> Response:
    """One record, its proof and how to check it elsewhere."""
    found = _leaf(visit)
    names = audit_pages.actor_names(visit.console.store, visit.principal, [found["leaf"]])
    return visit.show(
        "leaf.html",
        **found,
        names=names,
        pretty=_pretty(found["body"]),
        detail=_pretty_value(found["leaf"]["detail"]),
        origin=_pretty_value(found["leaf"]["origin"]),
    )


def _leaf(visit: Visit) -> Json:
    seq = _number(visit.named("seq"), None)
    if seq is None:
        raise NotFoundError("not-found", kind="leaf", id=visit.named("seq")[:40])
    found = audit_pages.leaf_page(visit.console.store, visit.principal, seq, visit.console.signer)
    _note(visit, "record", str(seq))
    return found


def _note(visit: Visit, what: str, subject: str | None) -> None:
    """Who read it stands in the log."""
    reads_of(visit.console.store).note(visit.principal, what, subject, visit.origin())


def leaf_json(visit: Visit) -> Response:
    """The record's bytes, which are what is hashed."""
    return _file(_leaf(visit)["body"].encode(), "application/json", f"leaf-{visit.named('seq')}.json")


def leaf_proof(visit: Visit) -> Response:
    """The proof as a file of the C2SP tlog-proof format."""
    proof = _leaf(visit)["proof"]
    if proof is None:
        raise UnavailableError("log-key-elsewhere")
    return _file(proof["text"].encode(), "text/plain; charset=utf-8", f"leaf-{visit.named('seq')}.tlog-proof")


def checkpoint_note(visit: Visit) -> Response:
    """The newest signed checkpoint as a file."""
    found = audit.newest(visit.console.store, visit.principal, visit.console.signer)
    _note(visit, "checkpoint", None)
    return _file(found["note"].encode(), "text/plain; charset=utf-8", f"checkpoint-{found['size']}.txt")


def consistency_page(visit: Visit) -> Response:
    """Does the log of one checkpoint begin with that of another?"""
    start, end = _number(visit.asked("from", 20), 0), _number(visit.asked("to", 20), 0)
    found = audit_pages.consistency(visit.console.store, visit.principal, start or 0, end or 0)
    return visit.show("consistency.html", found=found)


def checks(visit: Visit) -> Response:
    """Every check now, with what it found."""
    audit.authorise_audit(visit.principal)
    found = run_checks(visit.console.store, visit.principal)
    return visit.show("checks.html", found=found, pretty=_pretty_value)


def bundle(visit: Visit) -> Response:
    """A bundle as a tar file; an impossible window is said on the page."""
    audit.authorise_audit(visit.principal)
    if visit.console.signer is None:
        raise UnavailableError("log-key-elsewhere")
    try:
        window = window_of(visit, visit.form.get)
        _note(visit, "bundle", None)  # before, so that it stands in the bundle itself
        files = export_bundle(
            visit.console.store, visit.principal, visit.console.signer, window.start, window.end
        )
    except InvalidError as error:
        return _first_page(visit, 422, said_of(visit, error))
    archive = spooled_tar(files)
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="steelyard-evidence.tar"'}
    return StreamingResponse(read_pieces(archive), media_type="application/x-tar", headers=headers)


def _number(text: str, otherwise: int | None) -> int | None:
    """A count of records, else what is given."""
    if text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= MAX_SEQ:
        return int(text)
    return otherwise


def _pretty(body: str) -> str:
    return msgspec.json.format(body, indent=2)


def _pretty_value(value: Any) -> str | None:
    return None if value is None else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _file(data: bytes, kind: str, name: str) -> Response:
    return Response(
        data, media_type=kind, headers={**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    )


PAGES = [
    Page("GET", "/evidence", evidence_page),
    Page("GET", "/evidence/streams", stream_list),
    Page("GET", "/evidence/leaves", leaf_list),
    Page("GET", "/evidence/leaves/{seq}", leaf_page),
    Page("GET", "/evidence/leaves/{seq}/record.json", leaf_json),
    Page("GET", "/evidence/leaves/{seq}/proof.txt", leaf_proof),
    Page("GET", "/evidence/checkpoint.txt", checkpoint_note),
    Page("GET", "/evidence/consistency", consistency_page),
    Page("POST", "/evidence/checks", checks, whole_house=True),
    Page("POST", "/evidence/bundle", bundle, whole_house=True),
]
