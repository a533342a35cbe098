"""The server's side of isolation: what the operator's wish comes to with the runner that is there.

The runner looks at the machine; this asks it once in each of its lives. A runner of an earlier release knows
no isolation: nothing is started under it that the operator wished to be isolated by name, and one without
work is replaced.
"""

from __future__ import annotations

from typing import Any

from steelyard.engines.local import isolation
from steelyard.engines.local.isolation import AUTO, NONE, Wish
from steelyard.engines.local.link import Link
from steelyard.engines.local.protocol import WITH_ISOLATION
from steelyard.engines.port import EngineUnavailable

_OLD_RUNNER = "the runner is of an earlier release and still has work"


class EngineIsolation:
    """The choice for one cluster, and what it enforces."""

    def __init__(self, link: Link, wish: Wish) -> None:
        self._link = link
        self.wish = wish
        self._life: str | None = None
        self._choice = isolation.Choice(None)

    def choice(self) -> isolation.Choice:
        """The mode that members are started in. Raises EngineUnavailable."""
        if not self._link.hello:
            self._link.ask("running")  # connects
        if self._is_old() and int(self._link.ask("retire")["live"]) == 0:
            self._link.close()
            self._link.ask("running")
        if self._is_old():
            free = self.wish.mode in (AUTO, NONE)
            return isolation.Choice(NONE, _OLD_RUNNER) if free else _refused(self.wish)
        life = str(self._link.hello["life"])
        if life != self._life:
            found = self._ask()
            self._choice = isolation.Choice(found["mode"], found["text"], found["hide"])
            self._life = life
        return self._choice

    def claim(self) -> dict[str, Any]:
        """What an attempt's claim says of it. The runner refuses what can't be had, unless it knows the
        attempt already; one of an earlier release would start it, so it is not asked: EngineUnavailable."""
        choice = self.choice()
        if choice.mode is None and self._is_old():
            raise EngineUnavailable("isolation-unavailable", mode=self.wish.mode, reason=choice.text)
        network = isolation.HOST if choice.mode == NONE else self.wish.network
        refused = isolation.PREFERENCE[0] if self.wish.mode == AUTO else self.wish.mode
        return {"mode": choice.mode or refused, "network": network, "shared": list(self.wish.shared)}

    def why_refused(self) -> str:
        """Why the wish can't be had."""
        return self._choice.text

    def enforced(self) -> tuple[str, tuple[str, ...], str]:
        """(mode, what holds for a member without devices and port, why not more)."""
        choice = self.choice()
        if choice.mode is None:
            return self.wish.mode, (), choice.text
        held = isolation.enforced(
            choice.mode, self.wish.network, port=False, devices=False, hide=choice.hide
        )
        return choice.mode, held, choice.text

    def why_not(self) -> dict[str, str | None]:
        """Each mode: None where this machine can do it, else why it can't."""
        self.choice()
        if self._is_old():
            return {mode: _OLD_RUNNER for mode in isolation.MODES if mode != NONE}
        return dict(self._ask(everything=True)["why_not"])

    def _ask(self, *, everything: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = self._link.ask("isolation", wish=list(self.wish), all=everything)
        return found

    def _is_old(self) -> bool:
        return int(self._link.hello["protocol"]) < WITH_ISOLATION


def _refused(wish: Wish) -> isolation.Choice:
    return isolation.Choice(None, f"{wish.mode}: {_OLD_RUNNER}")
