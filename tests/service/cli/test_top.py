"""`top` on a real terminal: keys, sizes, languages, a server that goes away; and once, for scripts."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from steelyard.cli import top_page
from steelyard.cli.session import Session
from steelyard.cli.top_page import Page, Reading, by_use, draw
from steelyard.locale import LANGUAGES
from steelyard.locale.plain import columns
from tests.service.cli import fake
from tests.service.cli.fake import Fake, installed, page
from tests.service.cli.listening import House
from tests.support.terminal import ENTERED, LEFT, Terminal

COMMAND = [sys.executable, "-m", "steelyard.cli.main", "top"]
HOSTILE = "evil\x1b[2J\u202e训练任务训练任务训练任务训练任务训练任务训练任务"


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    row = {**fake.OLD, "phase": "running", "outcome": None, "name": HOSTILE}
    made.fake.on("GET /v1/workloads", page(row))
    yield made
    made.answering.set()
    made.leave()


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def widths(screen: str) -> int:
    return max(map(columns, screen.splitlines()))


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_q_and_ctrl_c_leave_the_terminal_as_it_was(house: House, key: str) -> None:
    with Terminal(COMMAND, house.environ()) as terminal:
        terminal.shows("2 running")
        assert not terminal.echoes()
        terminal.type(key)
        assert terminal.end() == 0
        assert terminal.echoes()
        assert terminal.written.startswith(ENTERED)
        assert terminal.written.endswith(LEFT)
        assert "Traceback" not in terminal.written


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_page_fits_80_columns_and_24_lines_whatever_it_is_written_in(house: House, lang: str) -> None:
    queues = [{**fake.QUEUE, "name": f"队列-{number}"} for number in range(40)]
    house.fake.on("GET /v1/queues", queues)
    with Terminal(COMMAND, house.environ(lang)) as terminal:
        screen = terminal.shows("evil\\x1b[2J")
        assert {"en": "ADMITTED", "zh": "已准入"}[lang] in screen
        assert widths(screen) <= 80
        assert len(screen.splitlines()) <= 24
        assert "\u202e" not in terminal.written
        terminal.resize(50, 12)
        narrow = terminal.until(lambda screen: len(screen.splitlines()) <= 12)
        assert widths(narrow) <= 50


def test_a_server_that_goes_away_leaves_its_last_page_and_is_asked_again(house: House) -> None:
    with Terminal([*COMMAND, "--interval", "1"], house.environ()) as terminal:
        terminal.shows("2 running")
        house.leave()
        lost = terminal.shows("server-not-reachable")
        assert "2 running" in lost
        house.fake.on("GET /v1/queues", [{**fake.QUEUE, "running": 7}])
        house.come_back()
        assert "server-not-reachable" not in terminal.shows("7 running")
        terminal.type("q")
        assert terminal.end() == 0


def test_a_server_that_hangs_does_not_hold_up_a_key(house: House) -> None:
    with Terminal([*COMMAND, "--interval", "3600"], house.environ()) as terminal:
        terminal.shows("2 running")
        house.answering.clear()
        house.asked.clear()
        terminal.type(" ")
        assert house.asked.wait(30)
        terminal.type("q")
        assert terminal.end(seconds=10) == 0


def test_who_may_look_no_more_is_told(house: House) -> None:
    with Terminal([*COMMAND, "--interval", "3600"], house.environ()) as terminal:
        terminal.shows("2 running")
        house.fake.on("GET /v1/workloads", (401, {"code": "not-signed-in", "detail": "sign in"}))
        terminal.type(" ")
        assert terminal.end() == 1
        assert terminal.written.rpartition(LEFT)[2].strip().endswith("[not-signed-in]")


def test_a_signal_gives_the_terminal_back(house: House) -> None:
    with Terminal(COMMAND, house.environ()) as terminal:
        terminal.shows("2 running")
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        assert terminal.echoes()
        assert terminal.written.endswith(LEFT)


def test_while_it_is_stopped_the_terminal_is_as_it_was(house: House) -> None:
    with Terminal([*COMMAND, "--interval", "3600"], house.environ()) as terminal:
        terminal.shows("2 running")
        terminal.type("\x1a")  # Ctrl-Z
        terminal.wrote(LEFT)
        wait_until(lambda: terminal.state() == "T")
        assert terminal.echoes()
        terminal.signal(signal.SIGCONT)
        terminal.wrote(ENTERED)
        terminal.shows("2 running")
        assert not terminal.echoes()
        terminal.type("q")
        assert terminal.end() == 0


def test_without_colours_none_are_drawn_and_with_them_bars_are(house: House) -> None:
    with Terminal(COMMAND, house.environ(NO_COLOR="1")) as terminal:
        terminal.shows("2 running")
        assert "\x1b[3" not in terminal.written
    with Terminal(COMMAND, house.environ()) as terminal:
        terminal.shows("2 running")
        assert "[\x1b[32m#####\x1b[0mxxxxx]" in terminal.written


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("arguments", [("top",), ("top", "--once")])
def test_without_a_terminal_it_is_printed_once(
    lang: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed().run(*arguments, lang=lang) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[##########xxxxxxxxxx]" in shown
    assert {"en": "[simulated]", "zh": "[模拟]"}[lang] in shown


def test_scripts_get_what_the_server_said(capsys: pytest.CaptureFixture[str]) -> None:
    server = installed()
    assert server.run("top", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"summary": fake.SUMMARY, "queues": [fake.QUEUE], "workloads": [fake.ROW, fake.OLD]}
    assert server.seen[0].url.params["phase"] == "running"


def test_a_server_that_is_not_there_is_told_like_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert Fake().run("top") == 4
    assert "[route-unknown]" in capsys.readouterr().err


def workload(number: int, started: int = 0, **asked: int) -> dict[str, Any]:
    return {**fake.ROW, "id": f"wl_{number}", "started_at": started, "requested": asked}


def test_what_takes_most_stands_first_accelerators_before_cores() -> None:
    rows = [workload(1, cpu=64000), workload(2, 5, gpu=1000), workload(3, 1, gpu=1000), workload(4, gpu=2000)]
    assert [row["id"] for row in by_use(rows)] == ["wl_4", "wl_3", "wl_2", "wl_1"]


@pytest.mark.parametrize(
    ("held", "away", "capacity", "bar"),
    [
        (0, 0, 0, ""),
        (0, 0, 1000, "[....................]"),
        (1, 1, 100_000, "[#..................x]"),
        (1000, 0, 1000, "[####################]"),
        (1000, 1000, 1000, "[####################]"),
        (500, 250, 1000, "[##########.....xxxxx]"),
    ],
)
def test_a_bar_shows_every_part_that_is_there(held: int, away: int, capacity: int, bar: str) -> None:
    assert top_page._bar(held, away, capacity, 20) == bar


@pytest.mark.parametrize("height", [1, 5, 12, 24, 60, None])
@pytest.mark.parametrize("width", [1, 20, 79, 80, 200])
def test_a_page_never_outgrows_its_room(width: int, height: int | None) -> None:
    reading = Reading(
        {**fake.SUMMARY, "classes": fake.SUMMARY["classes"] * 30},
        [{**fake.QUEUE, "name": f"q{number}"} for number in range(50)],
        [{**workload(number, gpu=1000), "name": HOSTILE} for number in range(200)],
        cut=True,
    )
    lines = draw(Session("zh", {}), reading, Page(width, height, notice="x" * 300))
    assert max(map(columns, lines)) <= width
    assert height is None or len(lines) <= height
    assert not re.search("[\x1b\u202e]", "".join(lines))


def test_a_house_without_anything_has_a_page() -> None:
    empty = Reading({"as_of": None, "clusters": [], "classes": []}, [], [])
    assert sum("(none)" in line for line in draw(Session("en", {}), empty, Page(80, 24))) == 3


def test_a_silent_cluster_is_named() -> None:
    silent = {**fake.SUMMARY, "clusters": [{"name": "far", "reachable": False}]}
    assert "! does not answer: far" in draw(Session("en", {}), Reading(silent, [], []), Page(80))
