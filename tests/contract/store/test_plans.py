"""What people wait for costs as much as is open, not as much as ever was: reads use the partial indices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from steelyard.model.organisation import Scope
from steelyard.store import inventory, live, overview, usage, waiting, workloads
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from steelyard.store.workloads import WorkloadFilter

ALL, SOME = Scope.system(), Scope(frozenset({"a", "b"}))
Read = Callable[[Connection], object]
READS: list[tuple[str, Read]] = [
    ("allocation_open", lambda view: inventory.open_allocations(view, ALL)),
    ("allocation_open", lambda view: inventory.open_allocations(view, SOME, [1, 2, 3])),
    ("allocation_open", live.open_allocations),
    ("allocation_open", lambda view: usage.open_holdings(view, ALL)),
    ("shape_reason_open", live.open_shape_reasons),
    ("workload_live", live.live_workloads),
    ("workload_live", lambda view: workloads.count_live(view, ALL)),
    ("workload_waiting", lambda view: workloads.count_live(view, ALL)),
    ("workload_waiting", lambda view: waiting.count_ahead(view, "main", 1, 1, 1)),
    ("sqlite_autoindex_shape_reason", lambda view: waiting.newest_reasons(view, 1, 1, 200)),
    ("workload_live", live.members_of_live),
    ("workload_live", lambda view: overview.live_by_phase(view, ALL)),
    ("workload_live", lambda view: overview.queued_by_shape(view, SOME)),
    ("workload_ended_badly", lambda view: overview.ended_badly(view, ALL, 1, 5)),
    ("workload_ended_badly", lambda view: overview.ended_badly(view, SOME, 1, 5)),
    ("workload_live", lambda view: workloads.list_workloads(view, ALL, WorkloadFilter(phase="queued"))),
]


@pytest.mark.parametrize(("index", "read"), READS, ids=range(len(READS)))
def test_a_read_of_what_is_open_uses_its_index(tmp_path: Path, index: str, read: Read) -> None:
    store = Store(sqlite_url(tmp_path), lambda: 1)
    asked: list[tuple[str, Any]] = []
    with store.read() as view:
        event.listen(store.engine, "before_cursor_execute", lambda *call: asked.append((call[2], call[3])))
        read(view)
        plans = [
            str(row[3])
            for statement, values in list(asked)
            for row in view.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    store.close()
    assert any(index in plan for plan in plans), plans
