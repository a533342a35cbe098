"""What fails again and again: failures of one kind with their cause, whose matter it is, and the newest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.usage import said_of
from steelyard.console.usage_window import SPANS, window_of
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError
from steelyard.model.failures import Group, Stage
from steelyard.services import failures
from steelyard.store.failed import FailureFilter

MOST = 100
_END = 2**62


def failures_page(visit: Visit) -> Response:
    """The groups of a window, the worst first."""
    group, stage = _known(visit.asked("group"), Group), _known(visit.asked("stage"), Stage)
    order = visit.asked("order") if visit.asked("order") in failures.ORDERS else "count"
    project = visit.asked("project", 63)
    given: dict[str, Any] = {
        "choices": [(name, visit.speech.say(f"usage.span.{name}")) for name in SPANS],
        "groups": _words(visit, "group", Group),
        "stages": _words(visit, "stage", Stage),
        "orders": [(name, visit.speech.say(f"failures.order.{name}")) for name in failures.ORDERS],
        **{"group": group, "stage": stage, "order": order, "project": project},
    }
    try:
        window = window_of(visit)
        end = _END if window.end is None else window.end
        wanted = FailureFilter(window.start or 0, end, project or None, stage, group)
        found = failures.recurring(visit.console.store, visit.principal, wanted, order=order, limit=MOST)
    except InvalidError as error:
        failed = said_of(visit, error)
        return visit.show("failures.html", 422, window=None, found=None, failed=failed, **given)
    return visit.show("failures.html", window=window, found=found, failed=None, **given)


def _words(visit: Visit, kind: str, values: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(value), visit.speech.word(kind, str(value))) for value in values]


def _known(value: str, values: Iterable[str]) -> str | None:
    return value if value in {str(each) for each in values} else None


PAGES = [Page("GET", "/failures", failures_page)]
