"""Ends of the line: terminals, pipes, interrupts, and what a start costs."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from steelyard.cli.safe import LogText, one_line, to_json, visible
from tests.service.cli.fake import Fake, installed, log

EVIL = b"ok \x1b[31mred\x1b[0m \x9b \xff\x00 \xe7\xba\xa2\xe2\x80\xae\rover\r\n"
COMMAND = [sys.executable, "-m", "steelyard.cli.main"]


class _Server(BaseHTTPRequestHandler):
    fake: Fake

    def do_GET(self) -> None:
        if self.path.endswith("/stream?offset=0"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"event: log\ndata: c3RlcCAxCg==\n\n")
            self.wfile.flush()
            threading.Event().wait(30)
            return
        answer = self.fake.answers["GET " + self.path.partition("?")[0]]
        body = json.dumps(answer.pop(0) if len(answer) > 1 else answer[0]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[Fake, dict[str, str]]]:
    """A real server on loopback, and the environment of a command that speaks to it."""
    fake = installed()
    handler = type("Handler", (_Server,), {"fake": fake})
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    environ = {
        **os.environ, "STEELYARD_URL": f"http://127.0.0.1:{listening.server_port}", "STEELYARD_LANG": "en",
        "HOME": "/nonexistent",
    }  # fmt: skip
    yield fake, environ
    listening.shutdown()
    listening.server_close()


def on_pipe(arguments: list[str], environ: dict[str, str]) -> bytes:
    """What a command writes to a pipe."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, env=environ, check=True, timeout=60)
    return done.stdout


def on_terminal(arguments: list[str], environ: dict[str, str], width: int = 80) -> bytes:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, env=environ)
    os.close(follower)
    written = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(leader)
    assert process.wait(30) == 0
    return written


def test_a_log_is_made_harmless_on_a_terminal(server: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = server
    fake.on("GET /v1/workloads/wl_1/logs", log(EVIL), log(b"", len(EVIL)))
    shown = on_terminal(["logs", "wl_1"], environ).decode()
    assert "ok \\x1b[31mred\\x1b[0m" in shown
    assert "\\x00 红\\u202e\r\nover\r\n" in shown
    assert not {"\x1b", "\x9b", "\x00", "\u202e"} & set(shown)


def test_a_log_is_raw_on_a_terminal_when_asked_for(server: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = server
    fake.on("GET /v1/workloads/wl_1/logs", log(EVIL), log(b"", len(EVIL)))
    assert b"\x1b[31mred" in on_terminal(["logs", "wl_1", "--raw"], environ)


def test_a_log_is_its_bytes_on_a_pipe(server: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = server
    fake.on("GET /v1/workloads/wl_1/logs", log(EVIL), log(b"", len(EVIL)))
    assert on_pipe(["logs", "wl_1"], environ) == EVIL


def test_a_name_can_not_command_the_terminal(server: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = server
    row = {**fake.answers["GET /v1/workloads"][0]["items"][0], "name": "a\x1b[2Jb\nc"}
    fake.on("GET /v1/workloads", {"items": [row], "next_cursor": None})
    plain = on_pipe(["list"], environ)
    for shown in (on_terminal(["list"], environ), plain):
        assert b"\x1b[2J" not in shown
    assert b"a\\x1b[2Jb\\nc" in plain
    assert len(plain.splitlines()) == 2


def test_a_reader_that_leaves_early_is_no_error(server: tuple[Fake, dict[str, str]]) -> None:
    fake, environ = server
    row = fake.answers["GET /v1/workloads"][0]["items"][0]
    fake.on("GET /v1/workloads", {"items": [row] * 20_000, "next_cursor": None})
    process = subprocess.Popen(
        [*COMMAND, "list", "--limit", "20000", "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_table_that_a_terminal_is_too_narrow_for_is_a_line_a_cell(
    server: tuple[Fake, dict[str, str]], lang: str
) -> None:
    _, environ = server
    # what the run itself stands in (a width, a CI) must not speak for the terminal
    environ = {k: v for k, v in environ.items() if k not in ("COLUMNS", "LINES", "CI")}
    environ["STEELYARD_LANG"] = lang
    shown = on_terminal(["list"], environ, width=40).decode()
    cells = on_pipe(["list"], environ).decode().splitlines()[1].split("  ")
    for cell in filter(None, map(str.strip, cells)):
        assert f": {cell}\r\n" in shown
    assert ": " not in on_terminal(["list"], environ, width=250).decode().splitlines()[0]


def test_output_that_can_not_be_written_is_a_sentence(server: tuple[Fake, dict[str, str]]) -> None:
    _, environ = server
    for form in ("table", "json", "yaml"):
        with open("/dev/full", "wb") as full:
            command = [*COMMAND, "list", "-o", form]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environ, timeout=60)
        assert done.returncode == 1
        assert done.stderr.endswith(b"[output-failed]\n")
        assert len(done.stderr.splitlines()) == 1


def test_without_an_output_nothing_is_shown_and_nothing_breaks(server: tuple[Fake, dict[str, str]]) -> None:
    _, environ = server
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "list"]
    done = subprocess.run(shell, capture_output=True, env=environ, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_ends_quietly(server: tuple[Fake, dict[str, str]]) -> None:
    _, environ = server
    # a run in the background ignores the interrupt, and its children would inherit that
    process = subprocess.Popen(
        [*COMMAND, "logs", "-f", "wl_1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"step 1\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"typer", "rich", "httpx", "yaml", "steelyard.client", "steelyard.bootstrap"}),
        (["--version"], {"typer", "rich", "httpx", "yaml", "steelyard.client", "steelyard.bootstrap"}),
        (["submit", "--help"], {"rich.table", "httpx", "yaml", "steelyard.client", "steelyard.bootstrap"}),
        (["up", "--help"], {"rich.table", "httpx", "yaml", "uvicorn", "steelyard.bootstrap"}),
        (["demo", "--help"], {"httpx", "numpy", "steelyard.demo", "steelyard.bootstrap"}),
    ],
)
def test_help_loads_nothing_that_it_does_not_need(arguments: list[str], absent: set[str]) -> None:
    code = (
        "import json, sys; from steelyard.cli.main import main; "
        f"assert main({arguments!r}) == 0; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=60,
        env={**os.environ, "HOME": "/nonexistent"},
    )  # fmt: skip
    assert set(json.loads(done.stderr)) & absent == set()


def test_a_terminal_that_knows_no_chinese_gets_escapes_and_no_crash() -> None:
    environ = {**os.environ, "STEELYARD_LANG": "zh", "PYTHONIOENCODING": "latin-1", "HOME": "/nonexistent"}
    assert b"\\u" in on_pipe(["--help"], environ)


def test_a_carriage_return_that_is_cut_from_its_line_feed_makes_one_line() -> None:
    text = LogText()
    assert text.feed(b"a\r") + text.feed(b"\nb\r") + text.feed(b"c") + text.feed(b"", final=True) == "a\nb\nc"


def test_a_letter_that_is_cut_in_two_is_whole_again() -> None:
    text = LogText()
    assert text.feed("红".encode()[:2]) + text.feed("红".encode()[2:]) == "红"
    assert text.feed(b"\xe7") + text.feed(b"", final=True) == "\ufffd"


def test_what_is_made_visible_is_still_json() -> None:
    data = {"name": "a\x1b\x9b\u202e红"}
    assert json.loads(to_json(data)) == data
    assert visible(to_json(data)) == to_json(data)
    assert one_line("a\nb\tc\x07") == "a\\nb c\\x07"
