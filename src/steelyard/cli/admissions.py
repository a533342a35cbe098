"""New types of resources: start, show, step, finish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError

Text = str | None
Admission = Annotated[str, typer.Argument(metavar="ADMISSION")]
#: Step → the options that say what it consists of.
_OF_STEP = {
    "labels": ("label",), "environment": ("need",), "monitoring": ("source",),
    "owner": ("owner", "on_call"), "verification": ("workload", "valid_for"),
}  # fmt: skip


def list_admissions(session: Session) -> None:
    """Every admission in a line."""
    rows = session.client.admissions()
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.class", lambda row: session.word("class", row["class"])),
        ("cli.column.family", "family"),
        ("cli.column.model", "model"),
        ("cli.column.state", lambda row: session.word("admission-state", row["state"])),
        ("cli.column.standing", lambda row: session.word("standing", row["standing"])),
        ("cli.column.missing", lambda row: _missing(session, row)),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def start(
    session: Session,
    device_class: Annotated[str, typer.Argument(metavar="CLASS")],
    family: Annotated[str, typer.Argument(metavar="FAMILY")],
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT")],
) -> None:
    """Begins the admission of a type."""
    found = session.client.start_admission(device_class, family, model, reason)
    session.emit(found, lambda: _page(session, found))


def show(session: Session, admission: Admission) -> None:
    """One admission with its steps."""
    found = session.client.admission(admission)
    session.emit(found, lambda: _page(session, found))


def step(
    session: Session,
    admission: Admission,
    step: Annotated[str, typer.Argument(metavar="STEP")],
    label: Annotated[list[str] | None, typer.Option("--label", metavar="KEY")] = None,
    need: Annotated[list[str] | None, typer.Option("--need", metavar="KEY=VALUE")] = None,
    source: Annotated[Text, typer.Option("--source", metavar="NAME")] = None,
    owner: Annotated[Text, typer.Option("--owner", metavar="TEXT")] = None,
    on_call: Annotated[Text, typer.Option("--on-call", metavar="TEXT")] = None,
    workload: Annotated[Text, typer.Option("--workload", metavar="WORKLOAD")] = None,
    valid_for: Annotated[Text, typer.Option("--valid-for", metavar="DURATION")] = None,
) -> None:
    """Takes a step."""
    given: dict[str, Any] = {
        "label": label or None, "need": need or None, "source": source, "owner": owner, "on_call": on_call,
        "workload": workload, "valid_for": valid_for,
    }  # fmt: skip
    known = _OF_STEP.get(step)
    if known is None:
        raise InvalidError("argument-invalid", name="STEP", given=step[:60], expected=" | ".join(_OF_STEP))
    for name, value in given.items():
        if value is not None and name not in known:
            expected = ", ".join(f"--{word.replace('_', '-')}" for word in known)
            option = f"--{name.replace('_', '-')}"
            raise InvalidError("argument-invalid", name=option, given=step, expected=expected)
    found = session.client.take_admission_step(admission, step, _detail(session, step, given))
    session.emit(found, lambda: _page(session, found))


def finish(session: Session, admission: Admission) -> None:
    """Admits the type."""
    found = session.client.finish_admission(admission)
    session.emit(found, lambda: _page(session, found))


def _detail(session: Session, step: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if step == "labels":
        return {"labels": given["label"] or []}
    if step == "environment":
        return {"environment": _values(given["need"] or [])}
    detail = {name: given[name] for name in _OF_STEP[step] if given[name] is not None}
    if "workload" in detail:
        detail["workload"] = session.client.find(detail["workload"])
    return detail


def _values(needs: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for need in needs:
        key, equals, value = need.partition("=")
        if not equals or not key or not value:
            raise InvalidError("argument-invalid", name="--need", given=need[:60], expected="KEY=VALUE")
        found.setdefault(key, []).append(value)
    return found


def _missing(session: Session, row: Mapping[str, Any]) -> str:
    steps = [session.word("admission-step", entry["step"]) for entry in row["steps"] if not entry["done"]]
    return ", ".join(steps) or "–"


def _page(session: Session, found: Mapping[str, Any]) -> None:
    session.say(
        "cli.admission-show.one", id=found["id"], resource=session.word("class", found["class"]),
        family=found["family"], model=found["model"],
        state=session.word("admission-state", found["state"]),
        standing=session.word("standing", found["standing"]),
    )  # fmt: skip
    for entry in found["steps"]:
        sign = "✓" if entry["done"] else "·"
        session.line(f"  {sign} {session.word('admission-step', entry['step'])}{_done(entry)}")


def _done(entry: Mapping[str, Any]) -> str:
    if not entry["done"]:
        return ""
    detail = entry["detail"]
    if entry["step"] == "verification":
        detail = {key: detail[key] for key in ("workload", "verification")}
    parts = [f"{key}: {_shown(value)}" for key, value in detail.items() if value]
    return one_line(f"  {format_time(entry['at'])}  {entry['by']}  {'; '.join(parts)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
