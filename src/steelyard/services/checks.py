"""All checks on the database: CK1 to CK9 (metering.md 5), and the log with its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from steelyard.evidence.conservation import (
    check_attribution,
    check_capacity,
    check_organisation,
    check_shares,
    check_sums,
)
from steelyard.evidence.findings import CheckResult, all_ok
from steelyard.evidence.timelines import (
    Counts,
    Sight,
    check_counts,
    check_ends,
    check_quota,
    check_tiling,
)
from steelyard.identity.authorise import authorise
from steelyard.model.ids import PREFIXES, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.units import SECOND
from steelyard.services.inventory import OBSERVATION_BOUND
from steelyard.services.ledger import all_capacity, open_segments
from steelyard.services.log_check import check_log
from steelyard.services.organisation import load_history
from steelyard.services.quota_history import charges_of_allocations, charges_of_holds, quota_epochs
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.declared import usage_counters
from steelyard.store.inventory import observations
from steelyard.store.releases import quarantine_intervals
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
NOUN = "audit"
#: A policy younger than this may not be known to the control loop yet: counters are not compared.
SETTLED = 5 * SECOND


class Rows:
    """Rows that are read anew whenever they are gone through, so that few are in memory at a time."""

    def __init__(self, read: Callable[[], Iterable[Record]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Record]:
        return iter(self._read())


@dataclass(frozen=True, slots=True)
class Books:
    """All rows that the checks of a moment rest on, of one read view. `whole`: holdings with all columns."""

    window: tuple[int, int]
    devices: list[Record]
    capacity: list[Record]
    unheld: Rows
    holding: Rows
    allocations: Rows
    attempts: Rows
    waits: Rows
    whole: Rows


def run_checks(store: Store, principal: Principal) -> Json:
    """`{ok, checks: [{id, ok, checked, found, findings}]}`; ids in findings are rendered."""
    authorise(principal, Verb.AUDIT, NOUN)
    results = check_everything(store)
    return {"ok": all_ok(results), "checks": [result_view(result) for result in results]}


def check_everything(store: Store) -> list[CheckResult]:
    """Every check, in one read view."""
    now = store.now()
    with store.read() as view:
        books = open_books(view, now)
        return [*check_books(view, books), *check_log(view)]


def open_books(view: View, now: int) -> Books:
    """Everything from the beginning until now; to be read while the view is open."""
    system, window = Scope.system(), (0, now)
    opened = open_segments(view, system, now)
    capacity = all_capacity(view, window, opened)
    return Books(
        window,
        _devices(view, capacity, {row["device_id"] for row in opened.capacity}),
        capacity,
        Rows(lambda: chain(repository.unheld_rows(view, window), opened.unheld)),
        Rows(lambda: chain(repository.checked_holdings(view, window), opened.holding)),
        Rows(lambda: repository.allocation_rows(view, window)),
        Rows(lambda: repository.attempt_rows(view)),
        Rows(lambda: repository.wait_rows(view, system, window)),
        Rows(lambda: chain(repository.holding_rows(view, system, window), opened.holding)),
    )


def _devices(view: View, capacity: Iterable[Record], metered: set[int]) -> list[Record]:
    """Metered devices; one that is metered no more ends with its last segment. One that was divided begins
    with its first: versions before metered its parts alone."""
    ends: dict[int, int] = {}
    begins: dict[int, int] = {}
    for row in capacity:
        ends[row["device_id"]] = max(row["t1"], ends.get(row["device_id"], 0))
        begins[row["device_id"]] = min(row["t0"], begins.get(row["device_id"], row["t0"]))
    parents = repository.parents(view)
    found = []
    for row in repository.metered_devices(view):
        number = row["id"]
        ended = {} if number in metered else {"retired_at": row["retired_at"] or ends.get(number)}
        late = {"registered_at": begins[number]} if number in parents and number in begins else {}
        found.append({**row, **ended, **late})
    return found


def check_books(view: View, books: Books) -> list[CheckResult]:
    """CK1 to CK9."""
    window, now = books.window, books.window[1]
    return [
        check_sums(window, books.capacity, books.unheld, books.holding),
        check_capacity(window, books.devices, books.capacity),
        check_shares(window, books.allocations, [*books.capacity, *_kept_back(view)]),
        check_attribution(window, books.holding, books.allocations),
        check_organisation(window, books.holding, load_history(view)),
        check_tiling(books.attempts, books.waits, books.holding, now),
        _counts(view),
        check_ends(books.allocations, books.attempts, books.holding, _sight(view, now)),
        _quota(view, books),
    ]


def _kept_back(view: View) -> list[Record]:
    """What was in quarantine was no capacity: whoever held of it was given what must not be offered."""
    return [{**row, "capacity": -row["quantity"]} for row in quarantine_intervals(view)]


def _counts(view: View) -> CheckResult:
    phases, outcomes, refusals = repository.count_all(view)
    return check_counts(Counts(repository.count_requests(view), refusals, phases, outcomes))


def _sight(view: View, now: int) -> Sight:
    seen = {
        name: row["as_of"] for name, row in observations(view).items() if row["reachable"] and row["as_of"]
    }
    blind = {row["cluster"] for row in repository.blind_rows(view, (0, now)) if row["t1"] is None}
    return Sight(now, OBSERVATION_BOUND, seen, frozenset(blind))


def _quota(view: View, books: Books) -> CheckResult:
    now = books.window[1]
    epochs = quota_epochs(view, now)
    charges = charges_of_allocations(view, books.allocations)
    recorded = usage_counters(view) if epochs and now - epochs[-1].t0 >= SETTLED else None
    return check_quota(charges, epochs, recorded, charges_of_holds(view))


def result_view(result: CheckResult) -> Json:
    """A result as shown."""
    return {
        "id": result.id,
        "ok": result.ok,
        "checked": result.checked,
        "found": result.found,
        "findings": [_finding(finding) for finding in result.findings],
    }


def _finding(finding: Json) -> Json:
    if finding["kind"] in PREFIXES and isinstance(finding["id"], int):
        return {**finding, "id": render(finding["kind"], finding["id"])}
    return finding
