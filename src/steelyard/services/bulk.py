"""Many workloads in one request: each is admitted or turned away by itself, and all are written together.

An array of small tasks costs one request and a few commits instead of one of each a task. Nothing is
decided together: a document that is refused has its own record and leaves its neighbours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from steelyard.evidence.leaf import Origin
from steelyard.model.errors import ConflictError, InvalidError, SteelyardError, UnavailableError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal
from steelyard.services.admission import Turned
from steelyard.services.idempotency import Once
from steelyard.services.overtaken import OvertakenError, again_when_overtaken, may_be_overtaken
from steelyard.services.refusals import told_again, told_body
from steelyard.services.submission import Submitted
from steelyard.services.workloads import Desk
from steelyard.store.unit import Unit

MOST_DOCUMENTS = 1000
#: Seconds for the whole request to be written.
_WRITTEN_WITHIN = 60.0
StatusOf = Callable[[SteelyardError], int]
#: Judges one document: the unit, and what its sender is told where it is turned away.
Plan = Callable[[], "tuple[Submitted | Turned, SteelyardError | None]"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one document. Exactly one of `id` and `error` is set."""

    id: str | None
    error: SteelyardError | None
    replayed: bool = False  # answered before, under the same key


def submit_many(
    desk: Desk,
    principal: Principal,
    documents: Sequence[object],
    *,
    origin: Origin | None = None,
    once: Once | None = None,
    status_of: StatusOf,
) -> list[Outcome]:
    """The outcome of each document, in their order. `once`: the request's key; each document is recorded
    under the key and its number, so a request that was cut off is completed by sending it again.

    Raises InvalidError for more documents than one request may carry, UnavailableError where the database
    does not answer in time: then some may be written, and the key says which.
    """
    if len(documents) > MOST_DOCUMENTS:
        raise InvalidError("too-many-documents", most=MOST_DOCUMENTS, given=len(documents))
    keys = [_key(once, number, document) for number, document in enumerate(documents)]
    known = _answered(desk, keys)
    waiting: list[tuple[int, Plan, Submitted | Turned, SteelyardError | None, Future[Unit]]] = []
    for number, document in enumerate(documents):
        if number in known:
            continue
        plan: Plan = partial(_plan, desk, principal, document, origin, keys[number], status_of)
        planned, told = plan()
        waiting.append((number, plan, planned, told, desk.store.writer.submit(planned.unit)))
    met: list[int] = []
    for number, ask, planned, told, future in waiting:
        outcome = _written(planned, told, future)
        if isinstance(outcome.error, ConflictError) and may_be_overtaken(planned):
            outcome = _alone(desk, ask)
        if isinstance(outcome.error, ConflictError):
            met.append(number)  # the same request at once: its answer stands under the key
        known[number] = outcome
    known.update(_answered(desk, [keys[number] if number in met else None for number in range(len(keys))]))
    return [known[number] for number in range(len(documents))]


def _key(once: Once | None, number: int, document: object) -> Once | None:
    if once is None:
        return None
    asked = sha256(repr(document).encode("utf-8", "surrogatepass")).hexdigest()
    return Once(once.principal, f"{once.key}/{number}", asked)


def _answered(desk: Desk, keys: Sequence[Once | None]) -> dict[int, Outcome]:
    """Documents that were answered before. Raises ConflictError where another stood under the key."""
    known: dict[int, Outcome] = {}
    if not any(keys):
        return known
    with desk.store.read() as view:
        for number, key in enumerate(keys):
            found = None if key is None else key.recorded(view)
            if found is not None and found.status >= 400:
                known[number] = Outcome(None, told_again(found.body), True)
            elif found is not None:
                known[number] = Outcome(found.body["id"], None, True)
    return known


def _plan(
    desk: Desk,
    principal: Principal,
    document: object,
    origin: Origin | None,
    key: Once | None,
    status_of: StatusOf,
) -> tuple[Submitted | Turned, SteelyardError | None]:
    planned = desk.plan(principal, document, origin=origin)
    told = planned.told() if isinstance(planned, Turned) else None
    if key is not None and told is not None:
        key.record(planned.unit, status_of(told), told_body(told), desk.store.now())
    elif key is not None and isinstance(planned, Submitted):
        name = render("workload", planned.workload_id)
        key.record(planned.unit, 201, {"id": name}, desk.store.now())
    return planned, told


def _alone(desk: Desk, plan: Plan) -> Outcome:
    """One whose guarantee was overtaken, by its neighbour for one: judged anew and written by itself."""

    def act() -> Outcome:
        planned, told = plan()
        outcome = _written(planned, told, desk.store.writer.submit(planned.unit))
        if isinstance(outcome.error, ConflictError) and may_be_overtaken(planned):
            raise OvertakenError(outcome.error.code, **outcome.error.params)
        return outcome

    try:
        return again_when_overtaken(desk.guaranteeing, act)
    except OvertakenError as error:
        return Outcome(None, error)


def _written(
    planned: Submitted | Turned, told: SteelyardError | None, future: Future[Unit]
) -> Outcome:
    try:
        future.result(_WRITTEN_WITHIN)
    except TimeoutError:
        future.cancel()
        raise UnavailableError("database-busy") from None
    except ConflictError as error:
        return Outcome(None, error)
    if isinstance(planned, Turned):
        return Outcome(None, told)
    return Outcome(render("workload", planned.workload_id), None)
