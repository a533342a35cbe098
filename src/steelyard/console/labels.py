"""The vocabulary of labels, what the lint finds in it, and when labels changed."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.services import label_history, label_lint

MOST_HISTORY, MOST_UNASKED = 200, 20


def label_page(visit: Visit) -> Response:
    """All of it; with a key its history, too."""
    store, who, key = visit.console.store, visit.principal, visit.asked("key", 253) or None
    found = label_lint.list_all(store, who)
    past = label_history.history(store, who, key)
    return visit.show(
        "labels.html",
        found=found,
        lint=label_lint.lint(store, who),
        key=key,
        vocabulary=past["vocabulary"][: MOST_HISTORY if key else MOST_UNASKED],
        left_off=max(0, len(past["vocabulary"]) - MOST_UNASKED) if key is None else 0,
        nodes=past["nodes"][:MOST_HISTORY] if key is not None else None,
        meaning=lambda entry: entry["meaning"].get(visit.speech.lang) or entry["meaning"].get("en"),
    )


PAGES = [Page("GET", "/labels", label_page)]
