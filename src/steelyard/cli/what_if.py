"""What would come of changes: who would start, wait, be evicted, before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import amount, fewer
from steelyard.cli.documents import WORKLOAD, placed, read
from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError

_WOULD = {"start": 0, "hold": 0, "wait": 0, "refuse": 3}
_MAX_SHOWN = 50
Texts = list[str] | None


def what_if(
    session: Session,
    file: Annotated[Texts, typer.Option("--file", "-f", metavar="FILE")] = None,
    copies: Annotated[int, typer.Option("--copies", metavar="N")] = 1,
    limit: Annotated[Texts, typer.Option("--limit", metavar="NODE:CLASS=N")] = None,
    add_devices: Annotated[Texts, typer.Option("--add-devices", metavar="FLAVOR=N")] = None,
    cordon: Annotated[Texts, typer.Option("--cordon", metavar="NODE")] = None,
    uncordon: Annotated[Texts, typer.Option("--uncordon", metavar="NODE")] = None,
    end: Annotated[Texts, typer.Option("--end", metavar="WORKLOAD")] = None,
) -> int:
    """All changes together, beside none of them: exit status 3 where something would be refused."""
    sources = read(file) if file else []
    declared = [source.document for source in sources if source.kind != WORKLOAD]
    changes: list[dict[str, Any]] = [{"documents": declared}] if declared else []
    changes += [{"limit": _limit(text)} for text in limit or ()]
    changes += [{"add_devices": _devices(text)} for text in add_devices or ()]
    changes += [{"cordon": name} for name in cordon or ()]
    changes += [{"uncordon": name} for name in uncordon or ()]
    changes += [{"end": session.client.find(name)} for name in end or ()]
    work = [source for source in sources if source.kind == WORKLOAD]
    changes += [{"submit": {"document": source.document, "copies": copies}} for source in work]
    if not changes:
        raise InvalidError("what-if-nothing")
    with placed(sources):
        found = session.client.what_if(changes)
    session.emit(found, lambda: _draw(session, found))
    return max((_WOULD.get(row["would"], 1) for row in found["submitted"]), default=0)


def _limit(text: str) -> dict[str, Any]:
    """`project/vision:gpu=8`; a space does for the colon."""
    node, _, amount = text.replace(" ", ":", 1).partition(":")
    subject, equals, value = amount.rpartition("=")
    if not equals or not subject or "/" not in node:
        raise InvalidError("argument-invalid", name="--limit", expected="KIND/NAME:CLASS=N")
    return {"node": node, "subject": subject, "value": value}


def _devices(text: str) -> dict[str, Any]:
    flavor, equals, count = text.rpartition("=")
    if not equals or not flavor or not count.isdecimal():
        raise InvalidError("argument-invalid", name="--add-devices", expected="FLAVOR=N")
    return {"flavor": flavor, "count": int(count)}


# --- the answer ------------------------------------------------------------------------------------------
def _draw(session: Session, found: Mapping[str, Any]) -> None:
    if found["added_nodes"]:
        names = found["added_nodes"]
        session.say("cli.what-if.nodes", names=", ".join(names[:8]), count=len(names))
    _submitted(session, found["submitted"])
    for row in found["changed"][:_MAX_SHOWN]:
        _changed(session, row)
    _left_out(session, found["changed_count"] - min(len(found["changed"]), _MAX_SHOWN))
    for row in found["reasons"][:_MAX_SHOWN]:
        _reasons(session, row)
    lowered = found.get("lowered") or ()
    for row in lowered[:_MAX_SHOWN]:
        _lowered(session, row)
    told = found["submitted"] or found["changed_count"] or found["reasons_count"] or lowered
    if not told:
        session.say("cli.what-if.same")
    before, after = found["counts"]["before"], found["counts"]["after"]
    session.line()
    session.say("cli.what-if.counts", when=session.text("cli.what-if.without"), **before)
    session.say("cli.what-if.counts", when=session.text("cli.what-if.with"), **after)
    if not found["complete"]:
        session.say("cli.what-if.cut")


def _lowered(session: Session, row: Mapping[str, Any]) -> None:
    """A limit that is passed: by how much, who leaves and when, and what stays above."""
    of = row["subject"]
    session.say(
        "cli.what-if.lowered", node=row["node"], subject=of, used=amount(session, of, row["used"]),
        limit=amount(session, of, row["limit"]),
        stays=amount(session, of, row["stays"]) if row["stays"] else None,
    )  # fmt: skip
    for gone in row["leaving"][:_MAX_SHOWN]:
        session.say(
            "cli.what-if.lowered-one", name=gone["name"] or session.text("cli.what-if.other"), id=gone["id"],
            queue=gone["queue"], at=gone["at"], quantity=amount(session, of, gone["quantity"]), **fewer(gone),
        )  # fmt: skip
    _left_out(session, row["leaving_count"] - min(len(row["leaving"]), _MAX_SHOWN))


def _submitted(session: Session, rows: list[Any]) -> None:
    """Copies of which the same becomes stand in one line."""
    told: dict[str, int] = {}
    first: dict[str, Any] = {}
    for row in rows:
        nodes = ", ".join(dict.fromkeys(member["node"] for member in row["placement"] or ()))
        head = session.text(
            "cli.what-if.submitted", name=row["name"] or "?", decision=row["would"], nodes=nodes or None,
            victims=row["victims"] or None,
        )  # fmt: skip
        told[head] = told.get(head, 0) + 1
        first.setdefault(head, row)
    for head, count in told.items():
        session.line(head if count == 1 else session.text("cli.what-if.times", text=head, count=count))
        for reason in first[head]["reasons"]:
            session.line(f"  - {session.reason(reason)}")


def _changed(session: Session, row: Mapping[str, Any]) -> None:
    preemptor = row["evicted_for"]
    limit = (preemptor or {}).get("limit")
    by = None
    if preemptor is not None and limit is None:
        by = preemptor["name"] or session.text(
            "cli.what-if.the-new" if preemptor["submitted_here"] else "cli.what-if.other"
        )
    nodes = ", ".join(dict.fromkeys(member["node"] for member in row["placement"] or ()))
    session.say(
        "cli.what-if.changed",
        name=row["name"] or session.text("cli.what-if.other"), id=row["id"], project=row["project"],
        before=row["before"], after=row["after"], by=by, nodes=nodes or None,
        limit=None if limit is None else limit["node"], **fewer(preemptor or {}),
    )  # fmt: skip


def _reasons(session: Session, row: Mapping[str, Any]) -> None:
    session.say(
        "cli.what-if.reasons", project=row["project"], queue=row["queue"], priority=row["priority"],
        count=row["waiting"],
    )  # fmt: skip
    told = {side: [session.reason(reason) for reason in row[side]] for side in ("before", "after")}
    for sign, side, other in (("-", "before", "after"), ("+", "after", "before")):
        for sentence in [each for each in told[side] if each not in told[other]][:3]:
            session.line(f"  {sign} {sentence}")


def _left_out(session: Session, count: int) -> None:
    if count > 0:
        session.say("cli.what-if.more-rows", count=count)
