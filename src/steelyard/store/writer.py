"""The only writer: takes what waits, flushes it by statement, commits, publishes, wakes.

A group of units shares one transaction and one fsync. The log row is updated first with
`WHERE size=? AND epoch=?`: lock, lost-update check and fence in one. Only when a group fails is it
replayed unit by unit with savepoints, so that one bad request doesn't fail its neighbours. Memory
(log state, stream heads) is published only after COMMIT.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import structlog
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, LogState, Sequenced, advance, sequence
from steelyard.evidence.merkle import Frontier, load_tails
from steelyard.model.errors import ConflictError, UnavailableError
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from steelyard.store.clock import stepped_back
from steelyard.store.database import end_stopped_writers, writing
from steelyard.store.failures import is_lock_wait, is_trouble, told
from steelyard.store.flush import kept_in_table, write_heads, write_openings, write_rows, write_usage
from steelyard.store.leaves import leaf_hashes, tile_reader
from steelyard.store.secrets import Opening, Secrets
from steelyard.store.statements import Statements
from steelyard.store.unit import NO_HEAD, Unit, object_stream, set_head

log = structlog.get_logger(__name__)

GROUP_OBJECTS = 200
#: Leaves of another server that are taken in one by one; after more the tails are worked out of the tiles.
MOST_CAUGHT_UP = 20_000
SYSTEM = ActorRef("system", "system")
_LEAF_COLUMNS = ("seq", "ts", "action", "object_kind", "object_id", "outcome", "body", "hash")


class LogMoved(Exception):
    """Another server appended meanwhile, or the epoch was raised."""


class StaleError(ConflictError):
    """A row had another version than the unit was built on."""


class FencedError(ConflictError):
    """The unit's lease epoch is no longer the log's: another server has taken over."""


class Reading(NamedTuple):
    """The time of a group: `at` as it goes into the log, `wall` as the machine says."""

    at: int
    wall: int


class Writer:
    """One a server. `submit` may be called from any thread; the future resolves after COMMIT."""

    def __init__(self, engine: Engine, now: Callable[[], int], wall: Callable[[], int] | None = None) -> None:
        self._engine = engine
        self._now = now
        self._wall = wall or now
        self._statements = Statements(engine.dialect)
        self.secrets = Secrets()
        self._queue: queue.SimpleQueue[tuple[Unit, Future[Unit]] | None] = queue.SimpleQueue()
        self._last_ts = 0
        self._state = LogState()
        self._state = self._read_state()
        self._clock = self._last_ts  # our newest reading of the wall clock that is committed
        self._heads: dict[str, Head] = {}
        self._listeners: list[Callable[[Sequenced], None]] = []
        self._ended = False  # closed, and the thread has ended
        self.commits = 0
        #: Told after each group of writes, in the writer's thread: units, seconds.
        self.on_flush: Callable[[int, float], None] | None = None
        self.broken: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    @property
    def state(self) -> LogState:
        """The log as last committed by this server."""
        return self._state

    @property
    def last_ts(self) -> int:
        """The time of the newest leaf, µs UTC."""
        return self._last_ts

    @property
    def waiting(self) -> int:
        """Units that wait to be written; an estimate."""
        return self._queue.qsize()

    def start(self) -> None:
        """Begin to take units."""
        self._thread.start()

    def close(self) -> None:
        """Flush what waits and end. Units that come later are turned away."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._ended = True
        self._turn_away()

    def _turn_away(self) -> None:
        """Nobody takes from the queue any more: whoever waits is told."""
        with contextlib.suppress(queue.Empty):
            while (late := self._queue.get_nowait()) is not None:
                late[1].set_exception(UnavailableError("database-failed", detail="closed"))

    def on_publish(self, listener: Callable[[Sequenced], None]) -> None:
        """`listener` is told after each commit, in the writer's thread; it must be quick and not raise."""
        self._listeners.append(listener)

    def submit(self, unit: Unit) -> Future[Unit]:
        """Queue a unit. The future gives the unit after COMMIT, or raises what refused it."""
        future: Future[Unit] = Future()
        self._queue.put((unit, future))
        if self._ended:
            self._turn_away()
        return future

    def write(self, unit: Unit, timeout: float = 60.0) -> Unit:
        """Submit and wait. Raises UnavailableError when the database does not answer in time; a unit whose
        turn has not come by then is not written any more."""
        future = self.submit(unit)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise UnavailableError("database-busy") from None

    def write_now(self, units: Sequence[Unit]) -> None:
        """Flush in the caller's thread; for a writer that was not started (benchmarks, tests, set-up)."""
        pairs: list[tuple[Unit, Future[Unit]]] = [(unit, Future()) for unit in units]
        self._flush(pairs)
        for _, future in pairs:
            future.result()

    # --- the thread ------------------------------------------------------------------------------
    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            group, count, last = [item], item[0].size, False
            while count < GROUP_OBJECTS:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    last = True
                    break
                group.append(following)
                count += following[0].size
            began = time.monotonic()
            self._flush(group)
            if self.on_flush is not None:
                _tell(self.on_flush, len(group), time.monotonic() - began)
            if last:
                return

    def _flush(self, group: list[tuple[Unit, Future[Unit]]]) -> None:
        group = [(unit, future) for unit, future in group if future.set_running_or_notify_cancel()]
        if not group:
            return
        units, now = [unit for unit, _ in group], Reading(self._now(), self._wall())
        for attempt in range(8):
            try:
                done = self._flush_together(units, now, locking=attempt > 0)
            except LogMoved:
                continue
            except Exception as error:
                # the edge of the writer: every waiting caller is told, and the next group is tried anew
                if is_lock_wait(error) and self._freed():
                    continue
                if is_trouble(error):
                    self._fail(group, error)
                elif len(group) == 1 and not isinstance(error, FencedError):
                    group[0][1].set_exception(told(error))
                else:
                    self._flush_apart(group, now)
                return
            self._publish(units, done, now)
            for unit, future in group:
                future.set_result(unit)
            return
        self._fail(group, UnavailableError("log-contended"))

    def _freed(self) -> bool:
        """Whoever holds the log and says nothing more is ended; False when even that fails."""
        try:
            log.warning("log-lock-waited-for", ended=end_stopped_writers(self._engine))
        except SQLAlchemyError:
            return False
        return True

    def _fail(self, group: list[tuple[Unit, Future[Unit]]], error: BaseException) -> None:
        self.broken = error
        for _, future in group:
            future.set_exception(told(error))

    def _flush_together(self, units: list[Unit], now: Reading, locking: bool) -> Sequenced:
        with writing(self._engine) as connection:
            if locking:
                self._state, self._heads = self._read_state(connection, lock=True), {}
            return self._apply(connection, units, self._state, {}, now)

    def _flush_apart(self, group: list[tuple[Unit, Future[Unit]]], now: Reading) -> None:
        """Replay one by one with savepoints: the bad ones fail alone."""
        committed: list[tuple[Unit, Future[Unit], Sequenced]] = []
        failed: list[tuple[Future[Unit], BaseException]] = []
        before = self._last_ts, self._clock
        try:
            with writing(self._engine) as connection:
                state, overlay = self._read_state(connection, lock=True), dict[str, Head]()
                self._heads = {}
                for unit, future in group:
                    savepoint = connection.begin_nested()
                    try:
                        done = self._apply(connection, [unit], state, overlay, now)
                    except Exception as error:
                        # whatever is wrong with one unit must not fail its neighbours
                        if is_trouble(error):
                            raise
                        savepoint.rollback()
                        failed.append((future, told(error)))
                        continue
                    savepoint.commit()
                    state, self._clock = done.state, now.wall
                    self._last_ts = done.rows[-1].ts if done.rows else self._last_ts
                    overlay.update(done.heads)
                    committed.append((unit, future, done))
        except Exception as error:
            # the edge of the writer, as above
            self._last_ts, self._clock = before
            self._fail(group, error)
            return
        for unit, future, done in committed:
            self._publish([unit], done, now)
            future.set_result(unit)
        for future, reason in failed:
            future.set_exception(reason)

    # --- one transaction ---------------------------------------------------------------------------
    def _apply(
        self,
        connection: Connection,
        units: list[Unit],
        state: LogState,
        overlay: dict[str, Head],
        now: Reading,
    ) -> Sequenced:
        epoch = state.epoch
        for unit in units:
            if unit.fence is not None and unit.fence != epoch:
                raise FencedError("lease-lost", epoch=epoch, held=unit.fence)
            if unit.new_epoch is not None:
                if unit.new_epoch <= epoch:
                    raise FencedError("lease-lost", epoch=epoch, held=unit.new_epoch)
                epoch = unit.new_epoch
        done = self._sequence(connection, units, state, overlay, now)
        self._write_log(connection, state, done, epoch)  # also without leaves: it is the fence
        stale = write_rows(connection, self._statements, units)
        if stale is not None:
            raise StaleError("object-changed", table=stale)
        write_heads(connection, self._statements, done.heads)
        write_usage(connection, self._statements, units)
        write_openings(connection, self._statements, self._openings(units))
        if epoch != state.epoch:
            done = done._replace(state=done.state._replace(epoch=epoch))
        return done

    def _sequence(
        self,
        connection: Connection,
        units: list[Unit],
        state: LogState,
        overlay: dict[str, Head],
        now: Reading,
    ) -> Sequenced:
        drafts: list[tuple[ActorRef, LeafDraft]] = []
        own: dict[str, Head] = {}
        if now.wall < self._clock - SECOND:
            drafts.append((SYSTEM, stepped_back(self._clock, now.wall)))
        for unit in units:
            unit.first_seq = state.size + len(drafts)
            for draft, _, head in unit.drafts:
                drafts.append((unit.actor, draft))
                if head is not NO_HEAD:
                    own.setdefault(object_stream(draft), head)

        def lookup(name: str) -> Head | None:
            return overlay.get(name) or own.get(name) or self._head(connection, name)

        done = sequence(state, max(now.at, self._last_ts), drafts, lookup)
        for unit in units:
            if unit.drafts:
                last = unit.first_seq + len(unit.drafts) - 1
                unit.last_hash = done.rows[last - state.size].hash
            if unit.on_place is not None:
                unit.on_place(unit.first_seq, lambda seq: done.rows[seq - state.size].hash)
            for draft, carrier, _ in unit.drafts:
                if carrier is not None:
                    set_head(carrier, done.heads[object_stream(draft)])
        return done

    def _head(self, connection: Connection, name: str) -> Head | None:
        if not kept_in_table(name):
            return None  # stands in the object's own row and came with the unit
        found = self._heads.get(name)
        if found is None:
            row = connection.execute(select(t.stream_head).where(t.stream_head.c.name == name)).first()
            if row is not None:
                found = self._heads[name] = Head(row.n, row.seq, bytes(row.hash))
        return found

    def _write_log(self, connection: Connection, state: LogState, done: Sequenced, epoch: int) -> None:
        statement = self._statements.update(
            t.log, ("size", "frontier", "last_ts", "epoch"), ("id", "size", "epoch")
        )
        row = {
            "v_size": done.state.size,
            "v_frontier": done.state.frontier.to_bytes(),
            "v_last_ts": done.rows[-1].ts if done.rows else self._last_ts,
            "v_epoch": epoch,
            "k_id": 1,
            "k_size": state.size,
            "k_epoch": state.epoch,
        }
        if not statement.run(connection, [row]):
            raise LogMoved
        if done.rows:
            self._statements.insert(t.leaf, _LEAF_COLUMNS).run(
                connection, [row._asdict() for row in done.rows]
            )
        if done.tiles:
            self._statements.insert(t.tile, ("level", "idx", "hashes")).run(
                connection,
                [{"level": tile.level, "idx": tile.index, "hashes": tile.blob} for tile in done.tiles],
            )

    def _openings(self, units: list[Unit]) -> list[Opening]:
        return self.secrets.openings(draft for unit in units for draft, _, _ in unit.drafts)

    def _publish(self, units: list[Unit], done: Sequenced, now: Reading) -> None:
        self.secrets.written(self._openings(units))
        self._state, self._clock, self.broken = done.state, now.wall, None
        if done.rows:
            self._last_ts = done.rows[-1].ts
        self.commits += 1
        self._heads.update((name, head) for name, head in done.heads.items() if kept_in_table(name))
        for unit in units:
            for stream, keep in unit.on_head:
                _tell(keep, done.heads[stream])
            for callback in unit.on_commit:
                _tell(callback)
        for listener in self._listeners:
            _tell(listener, done)

    def _read_state(self, connection: Connection | None = None, lock: bool = False) -> LogState:
        if connection is None:
            with self._engine.connect() as fresh:
                return self._read_state(fresh)
        query = select(t.log).where(t.log.c.id == 1)
        if lock and connection.dialect.name == "postgresql":
            query = query.with_for_update()
        row = connection.execute(query).one()
        self._last_ts = row.last_ts
        frontier = Frontier.from_bytes(row.size, bytes(row.frontier))
        known = self._state
        if 0 < known.size <= row.size <= known.size + MOST_CAUGHT_UP:
            _, now = advance(known, leaf_hashes(connection, known.size, row.size))
            if now.frontier == frontier:
                return now._replace(epoch=row.epoch)
        return LogState(row.size, frontier, row.epoch, load_tails(row.size, tile_reader(connection)))


def _tell(listener: Callable[..., None], *news: object) -> None:
    """What was committed stays committed, whatever a listener makes of it."""
    try:
        listener(*news)
    except Exception:
        # the edge of the writer: a listener's fault is not the unit's
        log.exception("listener-failed")
