"""The control loop of one server: takes the lease, follows the log, sees, decides, releases, seals.

One thread, one order: what engines saw is booked before anything new is decided. Whoever holds the
lease has its epoch in every unit; after a take-over the old holder's next write is refused. A commit
that fails throws the memory away and loads it anew: the store is right, memory is a copy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from steelyard.control.agents import Agent, Seen, drain
from steelyard.control.arrays import Arrays
from steelyard.control.context import Context
from steelyard.control.drain import Drainer
from steelyard.control.drift import Drifting
from steelyard.control.estimating import Estimating
from steelyard.control.flags import Flags
from steelyard.control.follow import Follower
from steelyard.control.idle import Idleness
from steelyard.control.inventory import Inventory
from steelyard.control.learning import Learning
from steelyard.control.lease import Lease
from steelyard.control.notes import forget_booked
from steelyard.control.past import Past
from steelyard.control.prices import Pricing
from steelyard.control.reconcile import Reconciler
from steelyard.control.release import Releaser
from steelyard.control.retain import Retainer
from steelyard.control.schedule import Scheduler
from steelyard.control.seal import Sealer
from steelyard.control.sight import Sight
from steelyard.control.starving import Starving
from steelyard.control.waiting import Waiting
from steelyard.engines.port import Engine
from steelyard.evidence.usage import Meter
from steelyard.model.errors import SteelyardError
from steelyard.model.lifecycle import HOLDING_PHASES, Phase
from steelyard.services.live_load import load_state
from steelyard.services.organisation import load_history
from steelyard.services.present import Present
from steelyard.services.retention import Retention
from steelyard.store import leaves
from steelyard.store import live as rows
from steelyard.store.archive import RESTORED_AT
from steelyard.store.cycles import newest_instant
from steelyard.store.installation import read_setting
from steelyard.store.store import Store

log = structlog.get_logger(__name__)

EngineFactory = Callable[[str, Mapping[str, object]], Engine]
Seal = Callable[[str], None]
BUSY_WAIT = 0.02
IDLE_WAIT = 1.0
TIMERS_EVERY = 0.25  # seconds
CLOSE_WAIT = 8.0  # for the tick that runs when the loop is closed
FAILED_WAIT, MOST_FAILED_WAIT = 0.02, 5.0


class Desk:
    """Everything the loop holds while it has the lease; made anew after a failed commit."""

    def __init__(
        self, store: Store, agents: dict[str, Agent], fence: int, seal: Seal, kept: Retention
    ) -> None:
        with store.read() as connection:
            size = leaves.log_size(connection)
            last_hash = leaves.leaf_hash(connection, size - 1) if size else None
            state, org = load_state(connection), load_history(connection)
            versions = rows.counters(connection)
            meter = Meter()
            meter.load(rows.meter_rows(connection))
            last_now = newest_instant(connection)
            restored_at = int(read_setting(connection, RESTORED_AT) or 0)
        org_version = versions.get("org_version", 0)
        self.context = Context(store, state, meter, org, agents, fence, size, last_hash, org_version)
        self.context.last_now, self.context.restored_at = last_now, restored_at
        self.waiting = Waiting(self.context)
        self.scheduler = Scheduler(self.context, self.waiting)
        self.reconciler = Reconciler(self.context, self.waiting)
        self.idleness = Idleness(self.context)
        self.arrays = Arrays(self.context)
        self.inventory = Inventory(self.context)
        self.drifting = Drifting(self.context)
        self.flags = Flags(self.context, self.inventory)
        self.drainer = Drainer(self.context)
        self.releaser = Releaser(self.context, self.flags)
        self.sight = Sight(self.context, self.inventory)
        self.past = Past(self.context)
        self.pricing = Pricing(self.context)
        self.learning = Learning(self.context)
        self.starving = Starving(self.context, self.waiting)
        self.estimating = Estimating(self.context)
        self.sealer = Sealer(store, seal)
        self.retainer = Retainer(self.context, kept)
        self.follower = Follower(self.context, self.inventory, versions)


class ControlLoop:
    """Call `tick` (tests, benchmarks), or `start` a thread and `close` it."""

    def __init__(
        self,
        store: Store,
        make_engine: EngineFactory,
        seal: Seal,
        holder: str,
        *,
        inline: bool = False,
        on_cycle: Callable[[int, float], None] | None = None,
        kept: Retention | None = None,
        present: Present | None = None,
    ) -> None:
        self._store = store
        self._make_engine = make_engine
        self._seal = seal
        self._inline = inline
        self._kept = kept or Retention()
        self._on_cycle = on_cycle  # told after each cycle: placements, seconds
        self._present = present or Present()
        self._lease = Lease(store, holder)
        self._wake = threading.Event()
        self._stirred = False  # by somebody else than a commit
        self._ending = threading.Event()
        self._next_timers = 0.0
        self._declared: dict[str, str] = {}
        self.agents: dict[str, Agent] = {}
        self.desk: Desk | None = None
        self.last_error: str | None = None
        self.ticked_at = 0.0
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        store.writer.on_publish(lambda _done: self._wake.set())

    def start(self) -> None:
        """Run in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop looping and give the lease back; running work goes on."""
        self._ending.set()
        self._present.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_WAIT)
        self._drop_agents()
        self._lease.give_back()

    @property
    def leading(self) -> bool:
        """True while this server holds the lease."""
        return self.desk is not None

    def _run(self) -> None:
        failed = 0  # ticks in a row
        while not self._ending.is_set():
            wait, more = IDLE_WAIT, False
            try:
                more = self.tick()
                wait = BUSY_WAIT if more else self._idle_wait()
                self.last_error, failed = None, 0
            except SteelyardError as error:
                self.last_error, failed = error.code, failed + 1
                log.warning("control-tick-failed", error=str(error))
                self.desk = None  # the next tick loads anew what the store has
            except Exception as error:
                # a loop's tick: whatever failed, the next tick loads anew what the store has
                self.last_error, failed = f"{type(error).__name__}: {error}", failed + 1
                log.exception("control-tick-failed")
                self.desk = None
            self.ticked_at = time.monotonic()
            if failed > 1:  # whatever wakes us now would only let it fail again
                self._ending.wait(min(FAILED_WAIT * (1 << min(failed, 10)), MOST_FAILED_WAIT))
            self._rest(wait, more)

    def _rest(self, wait: float, more: bool) -> None:
        """Until something comes up. A commit alone is none where nothing but our own leaves was written,
        unless there is `more` to do."""
        until = time.monotonic() + wait
        while True:
            self._wake.wait(max(0.0, until - time.monotonic()))
            self._wake.clear()
            if more or self._stirred or self._ending.is_set() or time.monotonic() >= until or self._unread():
                self._stirred = False
                return

    def _unread(self) -> bool:
        """Whether the log, or our own memory, has something for the next pass."""
        if self.desk is None or self._store.shared:
            return True
        context = self.desk.context
        return context.changed or self._store.writer.state.size > context.next_seq

    def _stir(self) -> None:
        """Somebody has something for the loop."""
        self._stirred = True
        self._wake.set()

    def tick(self) -> bool:
        """One pass. True when there is more to do at once."""
        fence = self._lease.hold()
        if fence is None:
            if self.desk is not None:
                log.warning("lease-lost")
                self.desk = None
                self._present.close()
                self._drop_agents()
            return False
        fresh = self.desk is None or self.desk.context.fence != fence
        if self.desk is None or fresh:
            self.desk = Desk(self._store, self.agents, fence, self._seal, self._kept)
            for agent in self.agents.values():
                agent.look_again()
            self._present.open(self._stir)
        try:
            if fresh:
                self.desk.follower.catch_up()
            return self._pass(self.desk)
        except SteelyardError:
            self.desk = None  # stale or fenced: memory is thrown away
            raise

    def _pass(self, desk: Desk) -> bool:
        context = desk.context
        if desk.follower.run():
            context.changed = True
        if asked := desk.follower.take_releases():
            desk.releaser.quarantine.asked(asked)
        desk.flags.follow(desk.follower.take_flags())
        if (given_up := desk.follower.take_retired()) is None or given_up:
            desk.inventory.retired(given_up)
        desk.drifting.follow(desk.follower.take_declared(), desk.follower.take_pools())
        self._engines(desk)
        if self._inline:
            for agent in self.agents.values():
                agent.step()
        for seen in drain(list(self.agents.values())):
            self._take(desk, seen)
        more = desk.reconciler.run()
        if time.monotonic() >= self._next_timers or self._inline:
            self._next_timers = time.monotonic() + TIMERS_EVERY
            desk.reconciler.timers()
            desk.idleness.run()
            desk.drainer.run()
            desk.drifting.run()
        more = desk.releaser.run() or more
        desk.arrays.follow(desk.follower.take_groups())
        more = desk.arrays.run() or more
        desk.past.run()
        desk.pricing.run()
        desk.learning.run()
        desk.starving.run()
        due = desk.scheduler.next_at is not None and desk.scheduler.next_at <= context.store.now()
        decides = context.changed or due or desk.scheduler.more
        if decides:
            context.changed = False
            self._cycle(desk)
        context.settle()
        desk.sealer.run()
        desk.retainer.run()
        self._present.answer(lambda: (context.state.snapshot(), context.state.policy))
        self._set_polls(desk)
        more = more or desk.scheduler.more
        return more or (desk.estimating.is_under_way if decides else desk.estimating.run())

    def _cycle(self, desk: Desk) -> None:
        began = time.monotonic()
        placements = desk.scheduler.run()
        if self._on_cycle is not None:
            self._on_cycle(placements, time.monotonic() - began)

    def _take(self, desk: Desk, seen: Seen) -> None:
        if seen.observation is not None:
            desk.sight.observed(seen.cluster, seen.observation.as_of)
            desk.reconciler.observe(seen.observation)
            forget_booked(desk.context, seen.observation)
        elif seen.failed is not None:
            desk.sight.lost(seen.cluster)
            desk.reconciler.forget_cluster(seen.cluster)
        elif seen.inventory is not None:
            desk.inventory.found(seen.cluster, seen.inventory)
            desk.drifting.found(seen.cluster, seen.inventory)
        elif seen.capabilities is not None:
            desk.sight.described(seen.cluster, seen.capabilities)
        elif seen.samples is not None:
            desk.idleness.take(seen.samples)
        for reply in seen.replies:
            desk.reconciler.reply(reply)
        for attempt_id, member_id, lines in seen.ends:
            desk.releaser.told(attempt_id, member_id, lines)
        for attempt_id, data in seen.results:
            desk.releaser.left(attempt_id, data)
        for probe in seen.probes:
            desk.releaser.probed(seen.cluster, probe, asked=seen.observation is None)
        for fenced in seen.fences:
            desk.releaser.fenced(seen.cluster, fenced)

    # --- engines -------------------------------------------------------------------------------------
    def _engines(self, desk: Desk) -> None:
        """One agent for each declared cluster; a changed declaration makes a new engine."""
        if not desk.follower.clusters_changed:
            return
        desk.follower.clusters_changed = False
        with self._store.read() as connection:
            declared = rows.declared_current(connection, "Cluster")
        for name in sorted(self._declared.keys() | declared.keys()):
            if self._declared.get(name) == declared.get(name):
                continue
            agent = self.agents.pop(name, None)
            if agent is not None:
                agent.close()
                desk.reconciler.forget_cluster(name)
            if name in declared:
                self._open(name, msgspec.json.decode(declared[name]))
        self._declared = declared

    def _open(self, name: str, spec: Mapping[str, object]) -> None:
        try:
            engine = self._make_engine(name, spec)
        except Exception:
            # an engine's call: one cluster that can't be opened must not stop the others
            log.exception("engine-not-opened", cluster=name)
            return
        agent = self.agents[name] = Agent(engine, self._stir)
        if not self._inline:
            agent.start()

    def _drop_agents(self) -> None:
        for agent in self.agents.values():
            agent.close()
        self.agents.clear()
        self._declared = {}

    def _set_polls(self, desk: Desk) -> None:
        busy: set[str] = set()
        quiet: set[str] = set()
        state = desk.context.state
        for attempt in state.in_phase(Phase.STARTING, Phase.STOPPING, Phase.RELEASING):
            busy |= attempt.clusters
        for attempt in state.in_phase(Phase.RUNNING):
            quiet |= attempt.clusters
        sampled = desk.idleness.clusters()
        for name, agent in self.agents.items():
            agent.sampling = name in sampled
            agent.set_poll(name in busy, name in quiet)

    def _idle_wait(self) -> float:
        desk = self.desk
        if desk is None:
            return IDLE_WAIT
        releasing = desk.releaser.due_in()
        if releasing is not None:
            return min(TIMERS_EVERY, max(BUSY_WAIT, releasing))
        if desk.context.state.in_phase(*HOLDING_PHASES, Phase.RESERVED):
            return TIMERS_EVERY
        if desk.scheduler.next_at is not None:
            return min(IDLE_WAIT, max(0.01, (desk.scheduler.next_at - self._store.now()) / 1e6))
        return IDLE_WAIT
