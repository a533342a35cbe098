"""A server of the story's own: another process, reached over HTTP like any other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from steelyard.model.errors import UnavailableError

PORT = 7580
_START_SECONDS = 40.0
_STOP_SECONDS = 20.0
FIRST_PASSWORD_FILE = "initial-password"
PASSWORD_FILE = "admin-password"


@dataclass(slots=True)
class Server:
    """A running server and where it keeps things."""

    process: subprocess.Popen[bytes]
    url: str
    data: Path
    log: Path

    @property
    def password_file(self) -> Path:
        """Where the story keeps the administrator's password, readable by the owner only."""
        return self.data / PASSWORD_FILE

    def first_password(self) -> str:
        """The one-time password of the first start. Waits for its file; UnavailableError if none comes."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            self.check_alive()
            file = self.data / FIRST_PASSWORD_FILE
            if file.is_file() and (lines := file.read_text(encoding="utf-8").splitlines()):
                return lines[0].strip()
            time.sleep(0.05)
        raise UnavailableError("demo-server-failed", reason="no initial password", log=str(self.log))

    def check_alive(self) -> None:
        """Raises UnavailableError with the log's last line when the process has ended."""
        if self.process.poll() is not None:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["–"]
            reason = f"exit {self.process.returncode}: {lines[-1][:300]}"
            raise UnavailableError("demo-server-failed", reason=reason, log=str(self.log))

    def stop(self) -> int | None:
        """Asks it to end and waits; its exit status, None when it had to be killed."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(_STOP_SECONDS)
                return None
        return self.process.returncode


def free_port(wanted: int = 0) -> int:
    """The wanted port where nobody has it, else one that is free now."""
    for port in (wanted, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise UnavailableError("demo-server-failed", reason="no free port", log="-")


def start(out: Path, lang: str, port: int) -> Server:
    """Starts `steelyard up` on OUT/data; it is not waited for."""
    data, log = out / "data", out / "server.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STEELYARD_")}
    environment |= {"STEELYARD_LANG": lang, "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, "-m", "steelyard.cli.main", "up", "--data", str(data), "--port", str(port)]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=out,
            start_new_session=True,
        )
    return Server(process, f"http://127.0.0.1:{port}", data, log)
