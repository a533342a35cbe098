"""Sentences beside the codes of an answer."""

from __future__ import annotations

from typing import Any

from steelyard.api.texts import with_texts


def reason() -> dict[str, Any]:
    return {"code": "exceeds-capacity", "stage": "placement", "wakes_on": [], "holders": [], "params": {}}


def test_a_reason_that_several_rows_share_is_told_beside_each_and_stays_as_it_was() -> None:
    shared = reason()
    shown = with_texts({"items": [{"first_reason": shared}, {"first_reason": shared}]}, "en")
    told = [row["first_reason"]["text"] for row in shown["items"]]
    assert told[0]
    assert told[0] == told[1] == with_texts(reason(), "en")["text"]
    assert "text" not in shared


def test_what_is_no_reason_is_shown_as_it_is() -> None:
    body = {"items": [{"code": "other", "params": {"n": 1}}, 3, None, [["a"]]], "next_cursor": None}
    assert with_texts(body, "zh") == body
