"""This machine as its engine reports it: CPU, memory and accelerators, and strangers on each of them.

The kernel's tables of processes are read no more often than vendor tools are asked. The same machine, seen
again, is the same object: whoever compares it need not look closer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from steelyard.devices.host import CPU_UID, MEMORY_UID, HostFacts, host_node, read_host
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.step import Step
from steelyard.engines.local import strangers
from steelyard.engines.local.cards import Cards, Named, without_times
from steelyard.engines.local.link import Link
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.stranger import RunnerMismatch, Watcher, lock_holder
from steelyard.engines.local.strangers import Hogs, Owners
from steelyard.engines.port import DeviceBinding, EngineUnavailable
from steelyard.model.health import DeviceHolder
from steelyard.model.resources import FoundNode
from steelyard.model.units import SECOND


class Machine:
    """One data folder's. `look` is for one thread at a time."""

    def __init__(
        self,
        settings: DeviceSettings,
        link: Link,
        watcher: Watcher,
        layout: Layout,
        now: Callable[[], int],
        name: str,
        reserve: tuple[int, int],
    ) -> None:
        self._link = link
        self._watcher = watcher
        self._layout = layout
        self._now = now
        self._name = name
        self._reserve = reserve
        self._every = settings.every / SECOND
        self._rules = settings.hogs
        self._cards = Cards(settings, layout, now)
        self._hogs: Hogs | None = None
        self._due = 0.0
        self._last: FoundNode | None = None

    def look(self) -> FoundNode:
        """The node as it is now, but for what its engine says of it as a whole."""
        host = read_host()
        again = time.monotonic() >= self._due
        owners = None
        if again:
            self._due = time.monotonic() + self._every
            owners = self._owners()
            self._look_for_hogs(host, owners)
        cards = self._cards.look(owners, again)
        cpu, memory = self._reserve
        node = host_node(host, self._now(), reserve_cpu=cpu, reserve_memory=memory, name=self._name)
        own = tuple(replace(one, holders=self._hogs_on(one.uid)) for one in node.devices)
        node = replace(node, devices=(*own, *cards))
        if self._last is None or _plain(self._last) != _plain(node):
            self._last = node
        return self._last

    def named(self, binding: DeviceBinding) -> Named:
        """See `Cards`."""
        return self._cards.named(binding)

    def files(self, binding: DeviceBinding) -> tuple[str, ...]:
        """See `Cards`."""
        return self._cards.files(binding)

    def steps(self) -> tuple[Step, ...]:
        """See `Cards`."""
        return self._cards.steps()

    def close(self) -> None:
        """Ends what still asks."""
        self._cards.close()

    def _owners(self) -> Owners | None:
        """Whose each process is; None where the supervisor can't be asked: then everybody looks strange."""
        try:
            running = self._link.ask("running")
        except RunnerMismatch:
            running = self._watcher.running()
        except EngineUnavailable:
            return None
        return strangers.look(running, lock_holder(self._layout))

    def _look_for_hogs(self, host: HostFacts, owners: Owners | None) -> None:
        if self._hogs is None:
            self._hogs = Hogs(self._rules, host.memory)
        if owners is not None and self._rules.looks:
            self._hogs.look(owners, time.monotonic_ns() // 1000)

    def _hogs_on(self, uid: str) -> tuple[DeviceHolder, ...]:
        if self._hogs is None:
            return ()
        return {CPU_UID: self._hogs.cpu, MEMORY_UID: self._hogs.memory}.get(uid, ())


def _plain(node: FoundNode) -> FoundNode:
    facts = {key: replace(fact, at=0) for key, fact in node.facts.items()}
    return replace(node, facts=facts, devices=without_times(node.devices))
