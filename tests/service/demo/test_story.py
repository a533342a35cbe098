"""The story's machinery with a pretended house: who asks, what is waited for, what a failure does."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from steelyard.demo import story as module
from steelyard.demo.context import Step, Story
from steelyard.demo.door import Door, Query, Unexpected, every, get, wait
from steelyard.demo.expect import Expectation, Found, Seen, found
from steelyard.demo.screen import Screen
from steelyard.demo.steps import contention, moving
from steelyard.model.errors import UnavailableError

Answer = tuple[int, Any]


class FakeDoor:
    """Answers from a table; remembers what was asked."""

    def __init__(self, answers: dict[tuple[str, str], Answer | Callable[[Query], Answer]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any]] = []

    def call(self, method: str, path: str, *, query: Query | None = None, body: Any = None) -> Answer:
        self.asked.append((method, path, body))
        found = self.answers.get((method, path), (404, {"code": "route-unknown"}))
        return found(query or {}) if callable(found) else found

    def download(self, path: str, body: Any) -> bytes:
        return b""


def pretended(tmp_path: Path, **doors: Door) -> Story:
    nobody: Door = FakeDoor({})
    return Story(
        out=tmp_path, data=tmp_path / "data", examples=tmp_path, python="python3",
        open_door=lambda user, password: nobody, first_password=lambda: "secret",
        keep_password=lambda own: None, doors=dict(doors),
    )  # fmt: skip


def screen() -> tuple[Screen, io.StringIO]:
    text = io.StringIO()
    return Screen("en", 3, Console(file=text, width=200, force_terminal=False)), text


def test_all_pages_of_a_list_are_read() -> None:
    pages = {None: {"items": [1, 2], "next_cursor": "b"}, "b": {"items": [3], "next_cursor": None}}
    door = FakeDoor({("GET", "/v1/x"): lambda query: (200, pages[query.get("cursor")])})  # type: ignore[index]
    assert every(door, "/v1/x") == [1, 2, 3]


def test_an_error_names_the_request_and_the_code() -> None:
    with pytest.raises(Unexpected, match=r"GET /v1/none: 404 route-unknown"):
        get(FakeDoor({}), "/v1/none")


def test_what_does_not_come_is_named() -> None:
    with pytest.raises(UnavailableError) as caught:
        wait("the tide", lambda: None, seconds=0.0, pause=0.0)
    assert caught.value.params["what"] == "the tide"


def test_a_workload_is_submitted_by_the_member_of_its_project(tmp_path: Path) -> None:
    made = {("POST", "/v1/workloads"): (201, {"id": "wl_1"})}
    lin, mei = FakeDoor(made), FakeDoor(made)  # type: ignore[arg-type]
    story = pretended(tmp_path, lin=lin, mei=mei)
    story.submit("finetune")
    assert (len(lin.asked), len(mei.asked)) == (0, 1)
    assert story.ids == {"finetune": "wl_1"}


def test_scripts_are_named_by_their_place_on_this_machine(tmp_path: Path) -> None:
    command = pretended(tmp_path).document("train-spiral")["spec"]["roles"][0]["command"]
    assert command[:2] == ["python3", f"{tmp_path}/train_numpy.py"]


def met(_seen: Seen) -> Found:
    return found(True, "status", status=200)


def breaks(_story: Story) -> None:
    raise KeyError("members")


def test_a_step_that_breaks_does_not_keep_later_ones_from_being_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(story: Story) -> None:
        story.seen["later"] = True

    def later(seen: Seen) -> Found:
        return found(seen["later"], "status", status=200)

    def missing(seen: Seen) -> Found:
        return found(seen["never"], "status", status=200)

    steps = (
        Step("open", breaks, (Expectation("declared", (), missing),)),
        Step("usage", note, (Expectation("receipts", (), later),)),
    )
    monkeypatch.setattr(module, "STEPS", steps)
    shown, text = screen()
    results = module._tell(pretended(tmp_path, admin=FakeDoor({})), shown)
    assert [(result.id, result.ok) for result in results] == [("declared", False), ("receipts", True)]
    assert "KeyError" in text.getvalue()
    assert (tmp_path / "report.html").is_file()


def test_a_house_that_nobody_gets_into_ends_the_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEPS", (Step("open", breaks),))
    shown, _ = screen()
    with pytest.raises(KeyError):
        module._tell(pretended(tmp_path), shown)


def test_a_folder_of_somebody_else_is_status_two_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    assert module.main(tmp_path, keep=False, lang="en") == module.EXIT_UNABLE
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_the_api_says_is_never_taken_for_markup_of_the_terminal() -> None:
    shown, text = screen()
    shown.end("open", 0.1, (), "[bold]not bold[/bold] [/]")
    assert "[bold]not bold[/bold] [/]" in text.getvalue()


def refusal(limit: int, used: int, requested: int, short_by: int, code: str) -> dict[str, Any]:
    reason = {
        "code": code, "owner": "project/vision", "resource": "gpu", "limit": limit, "used": used,
        "requested": requested, "short_by": short_by,
    }  # fmt: skip
    return {"status": 422, "body": {"refusal": "rf_1", "reasons": [reason]}}


@pytest.mark.requirement("J4")
def test_a_refusal_has_to_give_all_four_numbers() -> None:
    good = Seen({"refused-one-more": refusal(6000, 6000, 1000, 1000, "over-limit")})
    bad = Seen({"refused-one-more": refusal(6000, 5000, 1000, 1000, "over-limit")})
    assert contention.refused_over_quota(good).ok
    assert not contention.refused_over_quota(bad).ok


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(("held", "ok"), [(2000, True), (1999, False)])
def test_holders_have_to_sum_to_the_shortfall(held: int, ok: bool) -> None:
    reason = {"code": "waiting-for-quota", "resource": "gpu", "short_by": 2000, "holders": [{"amount": held}]}
    answer = {"decision": "waits", "reasons": [reason], "position": 1}
    assert contention.wait_explained(Seen(explanation=answer)).ok is ok


@pytest.mark.requirement("L26")
def test_both_teams_have_to_have_their_part_of_a_moved_project() -> None:
    def usage(*parts: tuple[str, str]) -> dict[str, Any]:
        rows = [{"project": "language", "class": "gpu", "team": team, "held": held} for team, held in parts]
        return {"rows": rows}

    whole = usage(("", "30"))
    split = Seen({"usage": whole, "usage-by-team": usage(("dialogue", "10"), ("research", "20"))})
    rewritten = Seen({"usage": whole, "usage-by-team": usage(("research", "30"))})
    assert moving.moved(split).ok
    assert not moving.moved(rewritten).ok
