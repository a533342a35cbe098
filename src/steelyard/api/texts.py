"""Sentences beside codes: reasons, remedies, factors, verdicts and releases get a `text` for their reader."""

from __future__ import annotations

from typing import Any

from steelyard.locale import factor_text, reason_text, remedy_text, text, verdict_text

_REASON = frozenset({"code", "stage", "wakes_on", "holders"})
_RELEASE = "release."
_REMEDY = "remedy."
_FACTOR = "factor."
_VERDICT = frozenset({"code", "group", "responsible", "action"})


def with_texts(body: Any, lang: str) -> Any:
    """The same answer with `text` in each reason, remedy, factor and verdict, and what is of a release."""
    return _with_texts(body, lang, {})


def _with_texts(body: Any, lang: str, told: dict[int, dict[str, Any]]) -> Any:
    """`told`: what mappings of the body have become, by identity; rows of a list share their reasons."""
    if isinstance(body, list):
        return [_with_texts(item, lang, told) if isinstance(item, (dict, list)) else item for item in body]
    if not isinstance(body, dict):
        return body
    if "code" not in body:
        return {
            key: _with_texts(value, lang, told) if isinstance(value, (dict, list)) else value
            for key, value in body.items()
        }
    known = told.get(id(body))
    if known is None:
        shown = {key: _with_texts(value, lang, told) for key, value in body.items()}
        known = told[id(body)] = _with_text(shown, lang)
    return known


def _with_text(shown: dict[str, Any], lang: str) -> dict[str, Any]:
    if shown.keys() >= _REASON:
        shown["text"] = reason_text(shown, lang)
    elif shown.keys() >= _VERDICT:
        shown["text"] = verdict_text(shown, lang)
    elif str(shown["code"]).startswith(_REMEDY):
        shown["text"] = remedy_text(shown, lang)
    elif str(shown["code"]).startswith(_FACTOR):
        shown["text"] = factor_text(shown, lang)
    elif str(shown["code"]).startswith(_RELEASE):
        shown["text"] = text(str(shown["code"]), shown, lang)
    return shown
