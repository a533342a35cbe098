"""Sentences beside codes: reasons, verdicts and releases get a `text` in the reader's language."""

from __future__ import annotations

from typing import Any

from steelyard.locale import reason_text, text, verdict_text

_REASON = frozenset({"code", "stage", "wakes_on", "holders"})
_RELEASE = "release."
_VERDICT = frozenset({"code", "group", "responsible", "action"})


def with_texts(body: Any, lang: str) -> Any:
    """The same answer with `text` in every mapping that is a reason, a verdict or about a release."""
    if isinstance(body, list):
        return [with_texts(item, lang) for item in body]
    if not isinstance(body, dict):
        return body
    shown = {key: with_texts(value, lang) for key, value in body.items()}
    if shown.keys() >= _REASON:
        shown["text"] = reason_text(shown, lang)
    elif shown.keys() >= _VERDICT:
        shown["text"] = verdict_text(shown, lang)
    elif str(shown.get("code")).startswith(_RELEASE):
        shown["text"] = text(str(shown["code"]), shown, lang)
    return shown
