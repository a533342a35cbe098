"""A PostgreSQL server of the tests' own: found, started once for all test processes, stopped by its pid.

The server lives in a temporary folder, listens on a free loopback port and on a socket in that folder,
and lets in one user with a random password. Durability settings are those that the product runs with;
only sizes are small. PostgreSQL refuses to run as root, so a root test run hands it to a system user.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

SYSTEM_USERS = ("postgres", "nobody")
START_SECONDS = 60
STATE = "server.json"

# Nothing here trades durability: fsync, full_page_writes and synchronous_commit keep their defaults.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "30s",
    "logging_collector": "off",
    "timezone": "UTC",
}


class PostgresqlMissing(Exception):
    """No server can be started here; the text says what is missing and how to get it."""


@dataclass(frozen=True)
class Server:
    """A running server: how to reach it, and the process to end."""

    pid: int
    port: int
    password: str

    def url(self, database: str = "postgres") -> str:
        """The address for psycopg as well as for SQLAlchemy (whose default driver is psycopg)."""
        return f"postgresql://steelyard:{self.password}@127.0.0.1:{self.port}/{database}"


def find_programs() -> Path:
    """The folder that holds `initdb` and `postgres`: on PATH first, then Debian's, newest version first."""
    on_path = [found for name in ("postgres", "initdb") if (found := shutil.which(name))]
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(debian, key=_version, reverse=True)
    for folder in [*(Path(found).resolve().parent for found in on_path), *newest_first]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresqlMissing(
        "PostgreSQL's server programs (initdb, postgres) are neither on PATH nor in "
        "/usr/lib/postgresql/*/bin. Debian: apt-get install postgresql"
    )


def _version(programs: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", programs.parent.name)]


def choose_user() -> pwd.struct_passwd | None:
    """Whom the server runs as: None for ourselves, a system user where we are root."""
    if os.geteuid() != 0:
        return None
    for name in SYSTEM_USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    names = " and ".join(SYSTEM_USERS)
    raise PostgresqlMissing(f"PostgreSQL refuses root, and the users {names} do not exist.")


def _identity(user: pwd.struct_passwd | None) -> dict[str, object]:
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _environment(folder: Path) -> dict[str, str]:
    # Nothing inherited: PG* variables and a locale of the caller would change what is tested.
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(folder), "TZ": "UTC"}


def make_folder() -> Path:
    """A temporary folder for one server; short, for a socket path holds about 100 characters."""
    return Path(tempfile.mkdtemp(prefix="steelyard-pg-", dir="/tmp" if os.path.isdir("/tmp") else None))


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        **_identity(choose_user()),  # type: ignore[call-overload]
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed ({done.returncode}): {done.stderr or done.stdout}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(folder: Path) -> Server:
    """Makes a cluster in `folder` and starts it; returns once it answers. Raises PostgresqlMissing."""
    programs, user, password = find_programs(), choose_user(), secrets.token_hex(16)
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if user is not None:
        os.chown(secret, user.pw_uid, user.pw_gid)
    data = folder / "data"
    _run(
        [
            f"{programs}/initdb",
            "--pgdata",
            str(data),
            "--username=steelyard",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ],
        folder,
    )
    secret.unlink()
    port = _free_port()
    settings = {**SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            [f"{programs}/postgres", "-D", str(data), *options],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **_identity(user),  # type: ignore[call-overload]
        )
    server = Server(process.pid, port, password)
    _wait_until_it_answers(server, process, folder)
    return server


def _wait_until_it_answers(server: Server, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(server.url(), connect_timeout=5).close()
            return
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                said = (folder / "log").read_text(errors="replace")
                raise RuntimeError(f"PostgreSQL did not start: {error}\n{said}") from error
        time.sleep(0.05)


def shared_server(folder: Path) -> Server:
    """The one server of `folder`, started by whichever test process asks first."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = folder / STATE
        if state.exists():
            return Server(**json.loads(state.read_text()))
        server = start(folder)
        state.touch(mode=0o600)
        state.write_text(json.dumps({"pid": server.pid, "port": server.port, "password": server.password}))
        return server


def stop(folder: Path) -> None:
    """Ends the server of `folder`, if one was started there, by its pid, and removes the folder."""
    state = folder / STATE
    if state.exists():
        server = Server(**json.loads(state.read_text()))
        if _is_ours(server.pid, folder):
            _end(server.pid)
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether the process with this number is still the server of `folder`, and no later one."""
    pid_file = folder / "data" / "postmaster.pid"
    return pid_file.exists() and pid_file.read_text().split("\n", 1)[0].strip() == str(pid)


def _end(pid: int) -> None:
    for number, seconds in ((signal.SIGINT, 15), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _alive(pid):
                return
            time.sleep(0.02)


def _alive(pid: int) -> bool:
    # Where this process started the server, its end shows as a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    return Path(f"/proc/{pid}").exists() if os.path.isdir("/proc/self") else _signalable(pid)


def _signalable(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def fresh_database(server: Server) -> Iterator[str]:
    """The address of an empty database that is dropped, connections and all, at the end."""
    name = f"steelyard_{secrets.token_hex(6)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield server.url(name)
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
