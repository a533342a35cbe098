"""Shape 8: routing is versioned policy; without a route, a project or a namespace nothing is admitted."""

from __future__ import annotations

import pytest

from steelyard.model.errors import RefusedError
from steelyard.model.policy import Route
from steelyard.model.workloads import WorkloadKind
from steelyard.services.policy import Routes, load_policy, route, routes
from steelyard.store.store import Store
from tests.support.stores import SMALL_HOUSE, apply, doc

KIND = WorkloadKind
ROUTING = Routes(
    (
        Route("prod", "high", "vision", KIND.INFERENCE, "prod", preemptible=False),
        Route("main", "normal", "vision"),
        Route("main", "high", "vision", KIND.INFERENCE),
        Route("main", "low", "speech", KIND.TRAINING),
    ),
    frozenset({"prod", "main"}),
    {"high": 1000, "normal": 100, "low": 1},
)


def refusal(*asked: object) -> tuple[str, dict[str, object]]:
    with pytest.raises(RefusedError) as caught:
        route(ROUTING, *asked)  # type: ignore[arg-type]
    (reason,) = caught.value.reasons
    assert (caught.value.code, reason.stage) == ("refused", "submit")
    return reason.code, dict(reason.params)


def test_the_first_route_that_matches_decides() -> None:
    assert route(ROUTING, "vision", KIND.INFERENCE, "prod") == ("prod", "high", 1000, False)
    assert route(ROUTING, "vision", KIND.INFERENCE, None) == ("main", "normal", 100, None)
    assert route(ROUTING, "speech", KIND.TRAINING, "prod") == ("main", "low", 1, None)


def test_without_a_route_it_is_refused_with_that_reason() -> None:
    assert refusal("speech", KIND.INFERENCE, None) == ("no-route", {"kind": "inference"})
    assert refusal("other", KIND.BATCH, "dev") == ("no-route", {"kind": "batch", "environment": "dev"})


def test_a_queue_is_asked_for_only_where_a_route_leads() -> None:
    assert route(ROUTING, "vision", KIND.INFERENCE, "prod", "main") == ("main", "normal", 100, None)
    assert refusal("speech", KIND.TRAINING, None, "prod") == ("no-queue", {"queue": "prod"})
    assert refusal("speech", KIND.TRAINING, None, "nowhere") == ("no-queue", {"queue": "nowhere"})


def test_a_priority_is_lowered_freely_and_raised_only_as_routes_say() -> None:
    assert route(ROUTING, "vision", KIND.TRAINING, None, None, "low") == ("main", "low", 1, None)
    assert route(ROUTING, "vision", KIND.INFERENCE, None, None, "high") == ("main", "high", 1000, None)
    code, params = refusal("vision", KIND.TRAINING, None, None, "high")
    assert (code, params["priority_class"]) == ("no-route", "high")
    assert refusal("vision", KIND.TRAINING, None, None, "unknown")[0] == "no-route"


def test_a_change_of_the_routing_is_a_new_version_of_the_policy(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with store.read() as view:
        version, found = load_policy(view).version, routes(view)
    assert route(found, "vision", KIND.INFERENCE, "dev") == ("main", "high", 1000, None)
    apply(store, doc("Routing", "default", routes=[]))
    with store.read() as view:
        assert load_policy(view).version == version + 1
        with pytest.raises(RefusedError):
            route(routes(view), "vision", KIND.INFERENCE, "dev")
