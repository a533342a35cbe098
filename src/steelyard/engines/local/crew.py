"""Shims that wait for their next member: a fork is the dearest part of starting something short.

A shim supervises one member at a time. When that has ended and is cleared, it frees the member's lock, says
so over its channel, and waits a moment for the next one, which comes as the claim's records together with
the lock, held. Where none comes, or the runner is gone (the channel's other end), it ends. To whoever reads
the notes it is all the same: a member's shim is the process that holds its lock, named in run.json.

A signal that was meant for the member before can't reach the next one: the runner signals a member's shim
only until it has read that the member is over, gives the next one after that, and the shim throws away what
waits before it begins. Standard library only: the runner imports this.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

#: How long a shim waits, and how many members it takes before a new one replaces it.
IDLE_SECONDS = 0.25
MOST_MEMBERS = 200
MOST_IDLE = 16
#: A claim that is longer is not worth a message.
_LONGEST = 48 * 1024
_FREE = b"f"


class Work(NamedTuple):
    """One member to supervise. `attempt` has this member alone."""

    attempt: dict[str, Any]
    member: dict[str, Any]


class Hand:
    """The runner's end of one shim that may be used again."""

    def __init__(self, channel: socket.socket, pid: int, start: int) -> None:
        self.channel = channel
        self.pid = pid
        self.start = start
        self.ended: Callable[[], None] | None = None  # told when its member is over
        self.free_since = 0.0


class Crew:
    """All hands of one runner, each registered with its selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._idle: list[Hand] = []

    def add(self, channel: socket.socket, pid: int, start: int, ended: Callable[[], None]) -> None:
        """A shim that was just forked, busy with its first member. `ended` is called when that is over and
        the shim lives on; the end of the process itself is for whoever watches it."""
        hand = Hand(channel, pid, start)
        hand.ended = ended
        self._selector.register(channel, selectors.EVENT_READ, lambda _mask: self._heard(hand))

    def give(self, work: Work, lock: int, ended: Callable[[], None]) -> tuple[int, int] | None:
        """Hands a member to a shim that waits: its pid and start time; None where none can take it."""
        text = json.dumps(work._asdict(), separators=(",", ":")).encode("ascii")
        if len(text) > _LONGEST:
            return None
        while self._idle:
            hand = self._idle.pop()
            if time.monotonic() - hand.free_since >= IDLE_SECONDS / 2:
                continue  # it may be leaving; its channel's end tells
            try:
                socket.send_fds(hand.channel, [text], [lock])
            except OSError:
                continue
            hand.ended = ended
            return hand.pid, hand.start
        return None

    def _heard(self, hand: Hand) -> None:
        try:
            said = hand.channel.recv(1)
        except OSError:
            said = b""
        ended, hand.ended = hand.ended, None
        if said != _FREE or len(self._idle) >= MOST_IDLE:
            self._drop(hand)
        else:
            hand.free_since = time.monotonic()
            self._idle.append(hand)
        if said == _FREE and ended is not None:
            ended()

    def _drop(self, hand: Hand) -> None:
        if hand in self._idle:
            self._idle.remove(hand)
        with suppress(KeyError, ValueError):
            self._selector.unregister(hand.channel)
        hand.channel.close()


def channel() -> tuple[socket.socket, socket.socket]:
    """The runner's and the shim's end. A message is whole, and comes with its lock."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def next_work(channel: socket.socket, watched: Collection[int]) -> tuple[Work, int] | None:
    """In the shim, when its member is over and the lock free: the next one and its lock, None to end."""
    channel.settimeout(IDLE_SECONDS)
    try:
        channel.send(_FREE)
        text, locks, _, _ = socket.recv_fds(channel, _LONGEST, 1)
    except OSError:  # nothing came in time, or the runner is gone
        return None
    if not text or not locks:
        return None
    os.set_inheritable(locks[0], False)
    while signal.sigtimedwait(watched, 0) is not None:
        pass
    fields = json.loads(text)
    return Work(fields["attempt"], fields["member"]), locks[0]
