"""A real server of a test's own: one process on loopback over one data folder, killed and started at will.

Every process that belongs to the folder (server, runner, shims, programs) is found by its command line or by
the mark in its environment, and is ended by its number. `close` fails the test when one is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from steelyard.engines.local import cgroups

PROGRAM = Path(sys.executable).parent / "steelyard"
RUNNER = b"steelyard.engines.local.runner"
START_SECONDS = 60.0

_ORGANISATION = """
kind: Team
metadata: {name: vision}
spec: {}
---
kind: Project
metadata: {name: detect}
spec: {team: vision}
---
kind: Namespace
metadata: {name: detect-dev}
spec: {project: detect, environment: dev}
---
kind: PriorityClass
metadata: {name: normal}
spec: {value: 10}
---
kind: Cohort
metadata: {name: all}
spec: {limits: []}
---
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [LIMITS]}
---
kind: Routing
metadata: {name: default}
spec: {routes: [{queue: main, priorityClass: normal}]}
"""


def organisation(**nominal: str) -> str:
    """A team down to its namespace, and the queue `main` with so much of each class, where all is routed."""
    limits = (f"{{class: {name}, nominal: {amount}}}" for name, amount in nominal.items())
    return _ORGANISATION.replace("LIMITS", ", ".join(limits))


LOCAL_DOCUMENTS = """
kind: Cluster
metadata: {name: here}
spec: {engine: local}
---
kind: Pool
metadata: {name: machine}
spec:
  cluster: here
  purpose: batch
  owner: platform
  flavors: [{name: core, class: cpu}, {name: ram, class: memory}]
---""" + organisation(cpu='"64"', memory="1Ti")

#: The same without isolation: programs see the test's files and leave marks there.
OPEN_DOCUMENTS = LOCAL_DOCUMENTS.replace("{engine: local}", "{engine: local, isolation: {mode: none}}")


class Server:
    """A server over `folder`. `database` names a shared one, else the folder's own is used."""

    def __init__(self, folder: Path, *, database: str = "") -> None:
        self.folder = folder
        self.database = database
        self.port = free_port()
        self.output = folder.parent / f"{folder.name}.out"
        self.more: list[str] = []  # options
        self.program: list[str] = [str(PROGRAM)]
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30.0, trust_env=False)
        self.password: str | None = None

    # ---- the process

    def launch(self) -> None:
        """Start the process and come back at once."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        command = [*self.program, *(["serve", "--database", self.database] if self.database else ["up"])]
        command += ["--data", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port), *self.more]
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                [*command, "--lang", "en"], env=environment(self.folder.parent), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Until /readyz says so."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/readyz").status_code == 200:
                    return
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended: {self.said()}"
            assert time.monotonic() < deadline, f"not ready: {self.said()}"
            time.sleep(0.02)

    def start(self) -> Server:
        """Start and wait until it is ready; signs in the first time."""
        self.launch()
        self.wait_ready()
        if self.password is None:
            self.sign_in()
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def said(self) -> str:
        """What it wrote so far."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    # ---- HTTP

    def sign_in(self, user: str = "admin", password: str | None = None) -> None:
        """Sign in; the first time with the password from the data folder, which is then changed."""
        first = None
        if password is None:
            password = self.password
        if password is None:
            password = first = (self.folder / "initial-password").read_text().splitlines()[0]
        self._open_session(user, password)
        if first is not None:
            self.password = secrets.token_hex(12)
            change = {"old": first, "new": self.password}
            self.client.post(f"/v1/users/{user}/password", json=change).raise_for_status()
            self._open_session(user, self.password)

    def _open_session(self, user: str, password: str) -> None:
        self.client.headers.pop("Authorization", None)
        answer = self.client.post("/v1/sessions", json={"user": user, "password": password})
        assert answer.status_code == 201, answer.text
        self.client.headers["Authorization"] = f"Bearer {answer.json()['token']}"

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of a GET that must succeed."""
        return _body(self.client.get(path, params=params))

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """The JSON of a POST that must succeed."""
        return _body(self.client.post(path, json=body, **options))

    def apply(self, documents: str) -> None:
        """Declare objects, in YAML."""
        self.post("/v1/objects:apply", {"documents": list(yaml.safe_load_all(documents))})

    def submit(self, name: str, command: list[str], *, key: str | None = None, **fields: Any) -> str:
        """Submit a one-role workload of 1 milli-core and 8 MiB; its id."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return str(self.post("/v1/workloads", document(name, command, **fields), headers=headers)["id"])

    def pages(self, path: str, **params: Any) -> list[Any]:
        """All items of a list."""
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get(path, limit=500, **params, **cursor)
            found += page["items"]
            if not page["next_cursor"]:
                return found
            cursor = {"cursor": page["next_cursor"]}

    def wait_for(self, done: Callable[[], Any], seconds: float = 60.0, every: float = 0.1) -> Any:
        """The first true answer of `done`."""
        deadline = time.monotonic() + seconds
        while not (found := done()):
            assert time.monotonic() < deadline, f"not reached in {seconds} s: {self.said()[-3000:]}"
            time.sleep(every)
        return found

    def told_why(self, workload: str) -> dict[str, Any]:
        """The workload as soon as a cycle has looked at it: with its reasons."""
        found: dict[str, Any] = {}

        def is_told() -> bool:
            found.update(self.get(f"/v1/workloads/{workload}"))
            codes = [reason["code"] for reason in found["reasons"]]
            return bool(codes) and "pending-evaluation" not in codes

        self.wait_for(is_told)
        return found

    # ---- the end

    def close(self) -> None:
        """End everything of the folder. Fails the test when a process is left."""
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(30)
        end_folder(self.folder)


def _body(answer: httpx.Response) -> Any:
    asked = f"{answer.request.method} {answer.request.url}"
    assert answer.is_success, f"{asked}: {answer.status_code} {answer.text}"
    return answer.json()


def document(name: str, command: list[str], **fields: Any) -> dict[str, Any]:
    """A Workload document. `requests`, `env`, `role` go to its one role, the rest to its spec."""
    role = {
        "name": "main", "command": command, "env": fields.pop("env", {}),
        "requests": fields.pop("requests", {"cpu": "1m", "memory": "8Mi"}), **fields.pop("role", {}),
    }  # fmt: skip
    metadata = {"name": name, "namespace": fields.pop("namespace", "detect-dev")}
    return {"kind": "Workload", "metadata": metadata, "spec": {"kind": "batch", **fields, "roles": [role]}}


def environment(home: Path) -> dict[str, str]:
    """What a server or a command is given: nothing of the user's own settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---- processes of a data folder ---------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A process of a data folder. `kind`: server, runner, shim or program."""

    pid: int
    start: int
    kind: str


def processes_of(folder: Path) -> list[Found]:
    """Every living process of a data folder. Runner and shims are told apart by the runner's lock file."""
    found = []
    runner = _runner_pid(folder)
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError, ValueError):
            state, start = _stat(entry)
            if state in "ZX":
                continue
            kind = _kind(entry, folder, runner)
            if kind is not None:
                found.append(Found(int(entry), start, kind))
    return found


def _stat(pid: str) -> tuple[str, int]:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _kind(pid: str, folder: Path, runner: int | None) -> str | None:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if str(folder).encode() in arguments:
        if RUNNER not in arguments:
            return "server"
        return "runner" if int(pid) == runner else "shim"
    work = f"HOME={folder}/work/".encode()
    mine = any(part.startswith(work) for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return "program" if mine else None


def _runner_pid(folder: Path) -> int | None:
    try:
        return int((folder / "runner.lock").read_text())
    except (OSError, ValueError):
        return None


def kill_runner(folder: Path) -> bool:
    """Kill -9 the folder's runner; False where none is there."""
    for found in processes_of(folder):
        if found.kind == "runner":
            return _kill(found, signal.SIGKILL)
    return False


def _kill(found: Found, number: int) -> bool:
    """Signals a process unless its number is another one's by now."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.pidfd_open(found.pid)
        try:
            if _stat(str(found.pid))[1] == found.start:
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def end_folder(folder: Path, seconds: float = 30.0) -> None:
    """Ends programs, so that their shims clear up and end; then the runner. What stays is killed."""
    deadline = time.monotonic() + seconds
    hard = time.monotonic() + seconds * 2 / 3
    while rest := processes_of(folder):
        kinds = {found.kind for found in rest}
        for found in rest:
            if time.monotonic() > hard or found.kind in ("program", "server"):
                _kill(found, signal.SIGKILL)
            elif found.kind == "runner" and kinds == {"runner"}:
                _kill(found, signal.SIGTERM)
        assert time.monotonic() < deadline, f"processes are left: {rest}"
        time.sleep(0.05)
    remove_groups(folder)


def remove_groups(folder: Path) -> None:
    """A runner that was killed leaves its control groups, empty: some hundred of them slow a machine down."""
    for outer in Path("/sys/fs/cgroup").glob(f"**/{cgroups.outer_name(os.path.abspath(folder))}"):
        for group in (*outer.glob("*/"), outer):
            with contextlib.suppress(OSError):
                group.rmdir()


@contextlib.contextmanager
def running(folder: Path, documents: str = LOCAL_DOCUMENTS, **options: Any) -> Iterator[Server]:
    """A started server with its documents applied, and everything of it ended afterwards."""
    server = Server(folder, **options)
    try:
        server.start()
        if documents:
            server.apply(documents)
        yield server
    finally:
        server.close()


def note(folder: Path, **values: Any) -> None:
    """Figures of a long run, one JSON line, for whoever reads its output."""
    print(json.dumps({"folder": folder.name, **values}, default=str), flush=True)
