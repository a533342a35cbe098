"""What a trial does from outside: commands on this machine, entries in a simulated cluster's document."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

from steelyard.poc.candidate import Candidate
from steelyard.poc.plan import Act

_SECONDS = 60.0


def do(act: Act, candidate: Candidate, cluster: str) -> None:
    """Runs a command to its end, or puts an entry. Raises OSError, subprocess.SubprocessError."""
    if act.command:
        subprocess.run(act.command, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    if act.suffer is not None:
        candidate.simulate(cluster, "suffer", act.suffer)
    if act.foreign is not None:
        candidate.simulate(cluster, "foreign", act.foreign)


def undo(act: Act, candidate: Candidate, cluster: str) -> None:
    """Takes entries out again."""
    if act.suffer is not None:
        candidate.simulate(cluster, "suffer", None)
    if act.foreign is not None:
        candidate.simulate(cluster, "foreign", None)


@contextlib.contextmanager
def doing(act: Act, candidate: Candidate, cluster: str) -> Iterator[None]:
    """As long as the block lasts: a command that runs, or an entry that stands."""
    process = None
    if act.command:
        process = subprocess.Popen(act.command, stdin=subprocess.DEVNULL, start_new_session=True)
    else:
        do(act, candidate, cluster)
    try:
        yield
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_SECONDS)
        else:
            undo(act, candidate, cluster)
