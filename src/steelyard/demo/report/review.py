"""The five questions of the review, each with its answer and the rows behind; and the service that scaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech, exact
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.markup import Child, Markup, el
from steelyard.reports.drawing.parts import section, table

MOST_ROWS = 6
Row = Callable[[Json, Speech], Sequence[Child]]


def review(facts: Facts, say: Speech) -> Markup:
    """Question, answer, rows."""
    anchor, heading = f"{say.lang}-review", say("review.title")
    if not facts.review:
        return section(anchor, heading, missing(say))
    parts: list[Markup] = []
    for question, answer in facts.review["answers"].items():
        parts.append(el("h3", say(f"review.{question}.question")))
        parts.append(el("p", say(f"review.{question}.{answer['code']}", **answer["params"])))
        head, row = _TABLES[question]
        if answer["rows"] and head:
            rows = [row(one, say) for one in answer["rows"][:MOST_ROWS]]
            parts.append(table([say(f"col.{name}") for name in head], rows, figures=_FIGURES[question]))
    return section(anchor, heading, *parts, lead=say("lead.review"))


def _tenths(permille: int) -> str:
    return f"{permille // 10}.{permille % 10} %"


def _idle(row: Json, say: Speech) -> Sequence[Child]:
    cause = say.word("state", row["cause"]) if row["cause"] else "–"
    unknown = row["unknown_permille"]
    return (
        row["cluster"], say.kind_of(row["class"], row["simulated"]), _tenths(row["permille"]), cause,
        "–" if unknown is None else _tenths(unknown),
    )  # fmt: skip


def _queueing(row: Json, say: Speech) -> Sequence[Child]:
    return (
        say.word("kind", row["kind"]), str(row["waits"]), say.duration(row["mean"]),
        say.word("wait", row["reason"]),
    )  # fmt: skip


def _failures(row: Json, say: Speech) -> Sequence[Child]:
    stage = say.word("stage", row["stage"]) if row["stage"] else "–"
    responsible = say.word("responsible", row["responsible"]) if row["responsible"] else "–"
    failure = say.word("failed", row["failure"]) if row["failure"] else "–"
    return failure, stage, str(row["count"]), responsible


def _unattributed(row: Json, say: Speech) -> Sequence[Child]:
    return row["project"], say.kind_of(row["class"], row["simulated"]), exact(row["held"])


_TABLES: dict[str, tuple[tuple[str, ...], Row]] = {
    "idle": (("cluster", "class", "idle-share", "idle-cause", "unknown-share"), _idle),
    "queueing": (("kind", "waits", "mean-wait", "wait-reason"), _queueing),
    "failures": (("failure", "stage", "count", "responsible"), _failures),
    "unattributed": (("project", "class", "exact"), _unattributed),
    "next": ((), _unattributed),
}
_FIGURES = {"idle": (2, 4), "queueing": (1, 2), "failures": (2,), "unattributed": (2,), "next": ()}
