"""Sentences beside codes: reasons and verdicts in an answer get a `text` in the reader's language."""

from __future__ import annotations

from typing import Any

from steelyard.locale import reason_text, verdict_text

_REASON = frozenset({"code", "stage", "wakes_on", "holders"})
_VERDICT = frozenset({"code", "group", "responsible", "action"})


def with_texts(body: Any, lang: str) -> Any:
    """The same answer with `text` in every mapping that is a reason or a verdict."""
    if isinstance(body, list):
        return [with_texts(item, lang) for item in body]
    if not isinstance(body, dict):
        return body
    shown = {key: with_texts(value, lang) for key, value in body.items()}
    if shown.keys() >= _REASON:
        shown["text"] = reason_text(shown, lang)
    elif shown.keys() >= _VERDICT:
        shown["text"] = verdict_text(shown, lang)
    return shown
