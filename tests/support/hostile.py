"""Two hostile projects on one machine: what a program of the one achieves against the other and the server.

Run as a program of its own (`python -m tests.support.hostile FOLDER MODE NETWORK`), so that it can also be an
ordinary user's. Prints one JSON object: what was claimed, and what the attacker achieved.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import NONE, Wish
from steelyard.engines.port import MemberObservation, MemberPhase
from tests.support.hostile_programs import ATTACKER, VICTIM
from tests.support.local_engine import (
    attempt,
    end_everything,
    make_local_engine,
    member,
    notes,
    runner_pid,
    wait_ended,
    wait_for,
    wait_free,
)

DEVICE = "/dev/steelyard-test"
#: What a server keeps in its data folder, and a person in a home.
_DATA = ("log.key", "initial-password", "steelyard.db", "local/claims/at_victim.json")
_HOME = (".config/steelyard/config.toml", ".ssh/id_ed25519")


def run(folder: Path, mode: str, network: str) -> dict[str, Any]:
    """The whole story in one folder, in which `home` is the home of the server's user."""
    shared = folder / "shared"
    engine = make_local_engine(folder, isolation=Wish(mode, network, (str(shared),)))
    try:
        capabilities = engine.capabilities()
        if mode != NONE and not capabilities.isolation:
            return {"unavailable": capabilities.isolation_text or str(dict(capabilities.isolation_modes))}
        victim, attacker, wrong = _story(engine, folder, apart=mode != NONE)
    finally:
        end_everything(engine)
    log = (folder / "data/local/logs/mb_attacker.log").read_text("utf-8", "replace")
    said = [line for line in log.splitlines() if line.startswith("achieved ")]
    tried, achieved = json.loads(said[0].partition(" ")[2]) if said else (None, None)
    return {
        "mode": capabilities.isolation_mode,
        "claimed": list(capabilities.isolation),
        "isolation": None if attacker.isolation is None else list(attacker.isolation.not_enforced),
        "tried": tried,
        "achieved": achieved,
        "exit": [victim.exit_code, attacker.exit_code],
        "failure": attacker.failure_text,
        "wrong": wrong,
        "log": log[-2000:],
    }


def _story(
    engine: LocalEngine, folder: Path, *, apart: bool
) -> tuple[MemberObservation, MemberObservation, list[str]]:
    name, secret = "steelyard-" + secrets.token_hex(6), secrets.token_hex(16)
    work = folder / "data/work/at_victim/mb_victim"
    env = (("VICTIMS_SECRET", secret),)
    command = ("python3", "-c", VICTIM, secret, name)
    engine.start([attempt("at_victim", member("mb_victim", command, env=env), project="victims")])
    log = folder / "data/local/logs/mb_victim.log"
    wait_for(engine, "mb_victim", lambda seen: _is_ready(seen, work, log), 30)
    for path in _DATA[:-1]:
        _write(folder / "data" / path)
    for path in _HOME:
        _write(folder / "home" / path)
    run_note = notes(folder, "mb_victim", "run.json")
    told = {
        **json.loads((work / "ready.json").read_text()),
        "name": name, "secret_hash": hashlib.sha256(secret.encode()).hexdigest(),
        "work": str(work), "log": str(log),
        "data": str(folder / "data"), "socket": str(folder / "data/runner.sock"),
        "sealed": [str(folder / "data" / p) for p in _DATA] + [str(folder / "home" / p) for p in _HOME],
        "victim": _innermost(run_note["child"]["pid"]), "shim": run_note["shim"]["pid"],
        "runner": runner_pid(folder), "shared": str(folder / "shared"),
        "setuid": str(folder / "shared/setuid"), "device": DEVICE,
    }  # fmt: skip
    attack = ("python3", "-c", ATTACKER, json.dumps(told))
    engine.start([attempt("at_attacker", member("mb_attacker", attack), project="attackers")])
    attacker = wait_ended(engine, "mb_attacker", 60)
    if apart:  # else it has its hands on what is the victim's
        wait_free(engine, "at_attacker", 20)
    wrong = _after(folder, work, secret)
    (work / "stop").touch()
    victim = wait_ended(engine, "mb_victim", 30)
    if apart:
        wait_free(engine, "at_victim", 20)
    return victim, attacker, wrong


def _is_ready(seen: MemberObservation, work: Path, log: Path) -> bool:
    assert seen.phase is not MemberPhase.ENDED, log.read_text("utf-8", "replace")[-1000:]
    return (work / "ready.json").exists()


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("of the server")
    path.chmod(0o600)


def _innermost(pid: int) -> int:
    """The victim's program itself, where its child is a sandbox: the last of a chain of only children."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


def _after(folder: Path, work: Path, secret: str) -> list[str]:
    """What clearing up after the attacker harmed: it left links to the victim's folder and a secret file."""
    wrong = [] if (work / "secret.txt").read_text() == secret else ["the victim's file was changed"]
    wrong += [] if (folder / "data/log.key").read_text() == "of the server" else ["the key was changed"]
    return wrong


if __name__ == "__main__":
    os.umask(0o022)
    sys.stdout.write(json.dumps(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3])) + "\n")
