"""What an agent reads of ended attempts: their logs' last lines, their results, whether they are really gone.

Read in the agent's thread and not in the control thread: a log may be made to be read slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import structlog

from steelyard.engines.port import Engine, ReleaseProbe
from steelyard.services.failure_catalogue import load_catalogue
from steelyard.services.failure_log import TAIL, Line, scan

log = structlog.get_logger(__name__)


def ends_of(
    engine: Engine, members: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str, tuple[Line, ...]]]:
    """(attempt, member, what its log says). One that can't be read leaves its verdict to the counters."""
    for attempt_id, member_id in members:
        try:
            chunk = engine.logs(member_id, -TAIL, TAIL)
        except Exception:
            # an engine's call: the attempt's end does not wait for its log
            log.warning("log-not-read", cluster=engine.cluster, member=member_id, exc_info=True)
            continue
        begin = chunk.next_offset - len(chunk.data)
        yield attempt_id, member_id, scan(load_catalogue(), member_id, chunk.data, begin)


def results_of(
    engine: Engine, files: Iterable[tuple[str, str, str, int]]
) -> Iterator[tuple[str, bytes | None]]:
    """(attempt, what it left), of (attempt, member, path, bytes at most)."""
    for attempt_id, member_id, path, limit in files:
        try:
            yield attempt_id, engine.read_artifact(attempt_id, member_id, path, limit)
        except Exception:
            # an engine's call: the attempt's end does not wait for its result
            log.warning("result-not-read", cluster=engine.cluster, member=member_id, exc_info=True)
            yield attempt_id, None


def probes_of(engine: Engine, attempt_ids: tuple[str, ...]) -> tuple[ReleaseProbe, ...]:
    """What was observed is told in any case: who can't be probed now is when its end is booked."""
    try:
        return engine.probe_release(attempt_ids) if attempt_ids else ()
    except Exception:
        # an engine's call, as above
        log.warning("gone-not-probed", cluster=engine.cluster, exc_info=True)
        return ()
