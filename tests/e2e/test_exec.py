"""Through the real server and command line: commands beside members, terminals, limits, requirements."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from tests.support.server import LOCAL_DOCUMENTS, PROGRAM, Server, environment

#: Ends when it was interrupted twice.
INTERRUPTED = """
n=0; trap 'n=$((n+1)); echo interrupted-$n; [ $n = 1 ] || exit 5' INT
echo ready; while :; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one workload that sleeps."""
    made = Server(tmp_path_factory.mktemp("exec") / "data").start()
    try:
        made.apply(LOCAL_DOCUMENTS)
        made.submit("sleeper", ["sleep", "600"])
        made.wait_for(lambda: made.get("/v1/workloads", q="sleeper")["items"][0]["phase"] == "running")
        yield made
    finally:
        made.close()


def settings(server: Server) -> dict[str, str]:
    token = server.client.headers["Authorization"].removeprefix("Bearer ")
    url = f"http://127.0.0.1:{server.port}"
    return {**environment(server.folder.parent), "STEELYARD_URL": url, "STEELYARD_TOKEN": token,
            "STEELYARD_LANG": "en", "TERM": "xterm"}  # fmt: skip


def steelyard(server: Server, *words: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(PROGRAM), *words], env=settings(server), input=said, capture_output=True, timeout=60, check=False
    )


def test_streams_come_apart_and_the_exit_status_is_handed_on(server: Server) -> None:
    done = steelyard(server, "exec", "sleeper", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert steelyard(server, "exec", "sleeper", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_input_is_piped(server: Server) -> None:
    many = b"line\n" * 200_000
    done = steelyard(server, "exec", "sleeper", "-i", "--", "wc", "-c", said=many)
    assert (done.returncode, done.stdout.strip()) == (0, b"%d" % len(many))


def test_a_command_that_can_not_be_started_is_a_clear_error(server: Server) -> None:
    done = steelyard(server, "exec", "sleeper", "--", "no-such-command")
    assert done.returncode == 1
    assert b"no-such-command" in done.stderr
    assert b"[execution-not-started]" in done.stderr
    assert steelyard(server, "exec", "nobody", "--", "true").returncode == 4


@pytest.mark.requirement("I10")
def test_who_ran_what_stands_in_the_evidence(server: Server) -> None:
    assert steelyard(server, "exec", "sleeper", "--", "sh", "-c", "exit 3").returncode == 3
    found = server.get("/v1/audit/leaves", stream="project/detect", limit=500)["items"]
    ended, began = [leaf for leaf in found if leaf["object"]["kind"] == "execution"][:2]
    assert (began["action"], ended["action"]) == ("workload.execute", "workload.execute-ended")
    assert began["detail"]["command"] == ["sh", "-c", "exit 3"]
    assert began["detail"]["member"].startswith("mb_")
    assert ended["detail"]["code"] == 3
    assert began["object"]["id"] == ended["object"]["id"]
    assert began["actor"]["kind"] == "user"
    assert all(check["ok"] for check in server.post("/v1/audit/checks")["checks"])


def test_leaving_ends_the_command(server: Server) -> None:
    process = subprocess.Popen(
        [str(PROGRAM), "exec", "sleeper", "--", "sh", "-c", "echo $$; exec sleep 605"],
        env=settings(server), stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait(30)
    process.stdout.close()
    server.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 20)


def test_a_terminal_passes_on_keys_and_is_given_back(server: Server) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [str(PROGRAM), "exec", "sleeper", "-it", "--", "sh", "-c", INTERRUPTED],
        env=settings(server), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    try:
        said = _Said(master)
        said.until(b"ready")
        assert termios.tcgetattr(slave)[3] & termios.ICANON == 0
        os.write(master, b"\x03")  # is for what runs there, and ends no command line here
        said.until(b"interrupted-1")
        os.write(master, b"\x03")
        said.until(b"interrupted-2")
        assert process.wait(30) == 5
        assert termios.tcgetattr(slave) == before
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(30)
        os.close(master)
        os.close(slave)


def test_a_terminal_is_given_back_when_the_command_line_is_told_to_end(server: Server) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [str(PROGRAM), "exec", "sleeper", "-it", "--", "sh"],
        env=settings(server), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    try:
        _Said(master).until(b"# ", b"$ ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert termios.tcgetattr(slave) == before
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(30)
        os.close(master)
        os.close(slave)


def test_one_attaches_to_a_terminal_and_lets_go_of_it_again(server: Server) -> None:
    script = "while read line; do echo heard-$line; done"
    server.submit("shell", ["sh", "-c", script], role={"tty": True})
    server.wait_for(lambda: server.get("/v1/workloads", q="shell")["items"][0]["phase"] == "running")
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    for word in (b"one", b"two"):
        process = subprocess.Popen(
            [str(PROGRAM), "attach", "shell"],
            env=settings(server), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        try:
            said = _Said(master)
            said.until(b"lets go")
            os.write(master, word + b"\r")
            said.until(b"heard-" + word)
            os.write(master, b"\x1d")
            assert process.wait(30) == 0
            assert termios.tcgetattr(slave) == before
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(30)
    os.close(master)
    os.close(slave)
    assert server.get("/v1/workloads", q="shell")["items"][0]["phase"] == "running"
    assert b"heard-two" in steelyard(server, "logs", "shell").stdout


def test_attaching_to_what_has_no_terminal_shows_its_log(server: Server) -> None:
    server.submit("talks", ["sh", "-c", "echo hello; sleep 1; echo done"])
    server.wait_for(lambda: server.get("/v1/workloads", q="talks")["items"][0]["phase"] != "queued")
    server.wait_for(lambda: b"hello" in steelyard(server, "logs", "talks").stdout)
    done = steelyard(server, "attach", "talks")
    assert (done.returncode, done.stdout) == (0, b"hello\ndone\n")


class _Said:
    """What comes out of a terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._seen = b""

    def until(self, *wanted: bytes, seconds: float = 30.0) -> None:
        """Reads up to one of these texts. Fails when it does not come."""
        deadline = time.monotonic() + seconds
        while not any(text in self._seen for text in wanted):
            left = deadline - time.monotonic()
            assert left > 0, self._seen
            if select.select([self._master], [], [], left)[0]:
                self._seen += os.read(self._master, 65536)
        self._seen = b""


def test_which_limits_are_in_force_is_said_of_each_member(server: Server) -> None:
    number = server.get("/v1/workloads", q="sleeper")["items"][0]["id"]
    view = server.get(f"/v1/workloads/{number}")
    told = {member["limits"] for attempt in view["attempts"] for member in attempt["members"]}
    assert len(told) == 1
    assert told <= {"cgroup-v2", "cgroup-v1", "rlimit"}
    assert f"limits: {told.pop()}".encode() in steelyard(server, "show", "sleeper").stdout


@pytest.mark.parametrize(
    ("role", "spec", "code"),
    [
        ({"requires": ["python:no_such_module>=2"]}, {}, "module-missing"),
        ({"requires": ["lib:libno-such.so.1"]}, {}, "library-missing"),
        ({"command": ["sh", "-c", "head -c 9000000 /dev/urandom > big; sleep 600"]},
         {"workFolder": {"sizeLimit": 4}}, "work-folder-quota"),
    ],
)  # fmt: skip
def test_what_is_missing_and_what_is_too_much_has_its_verdict(
    server: Server, role: dict[str, object], spec: dict[str, object], code: str
) -> None:
    command = role.pop("command", ["true"])
    number = server.submit(code, command, role=role, **spec)  # type: ignore[arg-type]
    view = server.wait_for(
        lambda: (found := server.get(f"/v1/workloads/{number}"))["phase"] == "finished" and found, 60
    )
    verdict = view["attempts"][-1]["verdict"]
    stage = "policy" if code == "work-folder-quota" else "environment"
    assert (verdict["stage"], verdict["code"]) == (stage, code)


def test_what_waits_for_disk_space_is_told_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = Server(tmp_path_factory.mktemp("full") / "data").start()
    try:
        full = "spec: {engine: local, workFolder: {minFree: 900Ti}}"
        made.apply(LOCAL_DOCUMENTS.replace("spec: {engine: local}", full))
        number = made.submit("waits", ["true"])
        found = made.wait_for(
            lambda: [
                reason for reason in made.get(f"/v1/workloads/{number}/explanation")["reasons"]
                if reason["params"].get("outage") == "disk-full"
            ]
        )  # fmt: skip
        assert found[0]["code"] == "waiting-for-capacity"
        assert "too little disk space" in found[0]["text"]
        assert made.get("/v1/inventory")["items"][0]["reason"] == "disk-full"
    finally:
        made.close()
