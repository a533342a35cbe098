"""Commands that are run beside a member, and terminals: the channels of their stream.

Over the API each message is one byte that names the channel, and its bytes. `STATUS` is a JSON object and the
last thing that is said: {code, signal, reason, text}; `RESIZE` is a JSON object {rows, columns}.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Channel(IntEnum):
    """What a message of an execution's stream is."""

    STDIN = 0  # to it; an empty one ends its input
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4  # to it


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """A window in characters."""

    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True)
class Execution:
    """A command to be run beside a member, in its surroundings. `terminal` None: three separate pipes."""

    command: tuple[str, ...]
    terminal: TerminalSize | None = None
    term: str = "xterm"  # name of the terminal's kind
    time_limit: int = 0  # µs; 0: none


#: Why an execution ended: its program did, its member did, whoever asked left, or a limit was reached.
ENDED, MEMBER_ENDED, LEFT = "ended", "member-ended", "left"
TIME_LIMIT, IDLE_LIMIT = "time-limit", "idle-limit"
#: It never ran: `text` says why.
NOT_STARTED = "not-started"
