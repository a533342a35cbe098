"""What observers have been shown: changes since a cursor, and how far what they see lags behind.

Without lag the feed points at the engine's notes and makes an observation when it is asked. With lag
(late or stale replies) every change is kept as it was, and comes to light when its time is seen.
"""

from __future__ import annotations

from collections import deque

from steelyard.engines.port import MemberObservation
from steelyard.engines.simulated.member import Member


class Feed:
    """Members in the order of their last visible change."""

    def __init__(self) -> None:
        self.version = 0
        self._members: dict[str, Member] = {}
        self._lagging = False
        self._backlog: deque[tuple[int, Member, MemberObservation]] = deque()

    def lag(self, lagging: bool) -> None:
        """From now on changes come to light only when `see` says so, or at once again."""
        if lagging and not self._lagging:
            for member in self._members.values():
                member.shown = member.observation()
        elif self._lagging and not lagging:
            while self._backlog:
                self.see(self._backlog[-1][0])
            for member in tuple(self._members.values()):
                member.shown = None
                self._show(member)
        self._lagging = lagging

    def touch(self, member: Member, at: int) -> None:
        """Something about the member changed at `at`."""
        if self._lagging:
            self._backlog.append((at, member, member.observation()))
        else:
            self._show(member)

    def see(self, until: int) -> None:
        """What changed up to `until` has come to light."""
        backlog = self._backlog
        while backlog and backlog[0][0] <= until:
            _, member, observation = backlog.popleft()
            member.shown = observation
            if not member.dropped:
                self._show(member)

    def drop(self, member: Member) -> None:
        """The member is not observed any more."""
        self._members.pop(member.id, None)
        member.dropped = True

    def all(self) -> tuple[MemberObservation, ...]:
        """Every member that has come to light."""
        return tuple(member.shown or member.observation() for member in self._members.values())

    def since(self, version: int) -> tuple[MemberObservation, ...]:
        """Members that changed visibly after `version`, oldest change first."""
        changed = []
        for member in reversed(self._members.values()):
            if member.version <= version:
                break
            changed.append(member.shown or member.observation())
        changed.reverse()
        return tuple(changed)

    def _show(self, member: Member) -> None:
        self.version += 1
        member.version = self.version
        self._members.pop(member.id, None)
        self._members[member.id] = member
