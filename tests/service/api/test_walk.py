"""Every route with every role: who is let in, who is told that it may not, to whom it is not there.

A route that stands in no row of the table fails the test, so that none is ever added without a thought.
`nobody` has an account and no binding; the last column is somebody without a credential.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from steelyard.api.auth import BEFORE_CHANGE, OPEN_ROUTES
from tests.service.api.conftest import Api, ApiHouse
from tests.support.stores import doc

WHO = ["admin", "aud", "ann", "vic", "bob", "nob"]
ALL = [200] * 6
ADMIN = [200, 403, 403, 403, 403, 403]
TEAM = {"documents": [doc("Team", "walk")]}
#: Somebody who is bound anywhere; somebody who is bound to the whole installation.
BOUND = [200, 200, 200, 200, 200, 403]
WHOLE = [200, 200, 403, 403, 403, 403]
NO_TOKEN = "cr_0000000000000"
NO_WORKLOAD = "wl_0000000000000"
NO_CYCLE = "cy_0000000000000"
NO_RELEASE = "rl_0000000000000"
NO_ADMISSION = "ad_0000000000000"
NO_RECORD = "vr_0000000000000"
#: What nobody may see who is bound nowhere, and what is not there.
SHARED = [404, 404, 404, 404, 404, 403]
CORDON = {"on": "nowhere", "act": "cordon", "reason": "x"}
RETIRES = {"device": "nowhere", "reason": "x"}
VERIFIES = {"device": "nowhere", "workload": NO_WORKLOAD}
JOB = {
    "kind": "Workload",
    "metadata": {"name": "walk", "namespace": "vision-dev"},
    "spec": {
        "kind": "training",
        "roles": [{"name": "main", "command": ["true"], "requests": {"cpu": 1}}],
    },
}

# route, concrete address, body, status for admin, auditor, member, viewer, member of another project, nobody
Row = tuple[str, str, Any, list[int]]
TABLE: list[Row] = [
    ("GET /v1/me", "/v1/me", None, ALL),
    ("GET /v1/users", "/v1/users", None, ALL),
    ("POST /v1/users", "/v1/users?dry_run=true", {"name": "zed"}, ADMIN),
    ("POST /v1/users/{name}/password", "/v1/users/bob/password", {"new": "a-long-password"}, ADMIN),
    ("POST /v1/users/{name}/disable", "/v1/users/zoe/disable", None, [404, *ADMIN[1:]]),
    ("GET /v1/tokens", "/v1/tokens", None, ALL),
    ("POST /v1/tokens", "/v1/tokens", {"name": "x"}, [201] * 6),
    ("DELETE /v1/tokens/{token_id}", f"/v1/tokens/{NO_TOKEN}", None, [404] * 6),
    ("POST /v1/objects:apply", "/v1/objects:apply?dry_run=true", TEAM, ADMIN),
    ("GET /v1/objects:export", "/v1/objects:export", None, ALL),
    ("GET /v1/objects", "/v1/objects", None, ALL),
    ("GET /v1/objects/{kind}/{name}", "/v1/objects/Project/vision", None, [200, 200, 200, 200, 404, 404]),
    (
        "GET /v1/objects/{kind}/{name}/history",
        "/v1/objects/Project/vision/history",
        None,
        [200, 200, 200, 200, 404, 404],
    ),
    ("DELETE /v1/objects/{kind}/{name}", "/v1/objects/Quota/vision?dry_run=true", None, ADMIN),
    ("POST /v1/workloads", "/v1/workloads?dry_run=true", JOB, [200, 403, 200, 403, 200, 200]),
    ("POST /v1/workloads:submit", "/v1/workloads:submit", {"documents": []}, ALL),
    ("GET /v1/workloads", "/v1/workloads", None, ALL),
    *[
        (
            f"{method} /v1/workloads/{{workload_id}}{rest}",
            f"/v1/workloads/{NO_WORKLOAD}{rest}",
            None,
            [404] * 6,
        )
        for method, rest in (
            ("GET", ""),
            ("GET", "/explanation"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
            ("POST", "/hold"),
            ("POST", "/release"),
            ("GET", "/logs"),
            ("GET", "/artifacts"),
            ("GET", "/logs/stream"),
        )
    ],
    (
        "GET /v1/workloads/{workload_id}/ahead/{other_id}",
        f"/v1/workloads/{NO_WORKLOAD}/ahead/{NO_WORKLOAD}",
        None,
        [404] * 6,
    ),
    (
        "POST /v1/workloads/{workload_id}/scale",
        f"/v1/workloads/{NO_WORKLOAD}/scale",
        {"replicas": 2},
        [404] * 6,
    ),
    ("GET /v1/refusals", "/v1/refusals", None, ALL),
    ("GET /v1/refusals/{refusal_id}", f"/v1/refusals/{NO_WORKLOAD.replace('wl', 'rf')}", None, [404] * 6),
    ("GET /v1/releases", "/v1/releases", None, ALL),
    *[
        (f"{method} /v1/releases/{{release_id}}{rest}", f"/v1/releases/{NO_RELEASE}{rest}", body, [404] * 6)
        for method, rest, body in (
            ("GET", "", None),
            ("POST", "/confirm", {"force": True, "reason": "x"}),
            ("POST", "/fence", {"reason": "x"}),
        )
    ],
    ("GET /v1/inventory", "/v1/inventory", None, BOUND),
    ("GET /v1/inventory/summary", "/v1/inventory/summary", None, BOUND),
    ("GET /v1/inventory/diff", "/v1/inventory/diff?from=1", None, BOUND),
    ("GET /v1/registrations", "/v1/registrations", None, BOUND),
    ("GET /v1/flags", "/v1/flags", None, BOUND),
    ("POST /v1/flags", "/v1/flags", CORDON, [404, 403, 403, 403, 403, 403]),
    ("POST /v1/registrations", "/v1/registrations", RETIRES, [404, 403, 403, 403, 403, 403]),
    ("POST /v1/verifications", "/v1/verifications", VERIFIES, [404, 403, 403, 403, 403, 403]),
    ("GET /v1/departures", "/v1/departures?on=nowhere", None, [404, 403, 403, 403, 403, 403]),
    (
        "GET /v1/devices/{device_id:path}",
        f"/v1/devices/{NO_WORKLOAD.replace('wl', 'dv')}",
        None,
        [404, 404, 404, 404, 404, 403],
    ),
    ("GET /v1/pools", "/v1/pools", None, BOUND),
    ("GET /v1/pools/{name}", "/v1/pools/none", None, SHARED),
    ("POST /v1/pools/{name}/close", "/v1/pools/none/close", {"reason": "x"}, [404, *ADMIN[1:]]),
    ("POST /v1/pools/{name}/open", "/v1/pools/none/open", {"reason": "x"}, [404, *ADMIN[1:]]),
    ("GET /v1/labels", "/v1/labels", None, BOUND),
    ("GET /v1/labels/lint", "/v1/labels/lint", None, BOUND),
    ("GET /v1/labels/history", "/v1/labels/history", None, BOUND),
    ("GET /v1/admissions", "/v1/admissions", None, BOUND),
    (
        "POST /v1/admissions",
        "/v1/admissions",
        {"class": "none", "family": "f", "model": "m", "reason": "x"},
        [400, *ADMIN[1:]],
    ),
    ("GET /v1/admissions/{admission_id}", f"/v1/admissions/{NO_ADMISSION}", None, SHARED),
    (
        "POST /v1/admissions/{admission_id}/steps/{step}",
        f"/v1/admissions/{NO_ADMISSION}/steps/owner",
        {"owner": "x", "on_call": "y"},
        [404, *ADMIN[1:]],
    ),
    (
        "POST /v1/admissions/{admission_id}/finish",
        f"/v1/admissions/{NO_ADMISSION}/finish",
        None,
        [404, *ADMIN[1:]],
    ),
    ("GET /v1/verifications", "/v1/verifications", None, BOUND),
    ("GET /v1/verifications/{verification_id}", f"/v1/verifications/{NO_RECORD}", None, SHARED),
    (
        "POST /v1/verifications/{verification_id}/end",
        f"/v1/verifications/{NO_RECORD}/end",
        {"reason": "x"},
        [404, *ADMIN[1:]],
    ),
    ("GET /v1/register", "/v1/register", None, BOUND),
    ("GET /v1/register/{name}", "/v1/register/none", None, SHARED),
    ("GET /v1/queues", "/v1/queues", None, BOUND),
    ("GET /v1/queues/{name}/waiting", "/v1/queues/none/waiting", None, SHARED),
    ("GET /v1/quotas", "/v1/quotas", None, BOUND),
    ("GET /v1/quota-inventory", "/v1/quota-inventory", None, WHOLE),
    ("GET /v1/estimates", "/v1/estimates", None, ALL),
    ("POST /v1/what-if", "/v1/what-if", {"changes": [{"submit": JOB}]}, [200, 403, 200, 403, 200, 200]),
    ("GET /v1/cycles", "/v1/cycles", None, WHOLE),
    ("GET /v1/cycles/{cycle_id}", f"/v1/cycles/{NO_CYCLE}", None, [404, 404, *WHOLE[2:]]),
    ("POST /v1/cycles/{cycle_id}/replay", f"/v1/cycles/{NO_CYCLE}/replay", None, [404, 404, *WHOLE[2:]]),
    (
        "POST /v1/policy:preview",
        "/v1/policy:preview",
        {"documents": [doc("PriorityClass", "walk", value=1)]},
        [400, 400, *WHOLE[2:]],
    ),
    ("POST /v1/cycles:replay", "/v1/cycles:replay", {}, WHOLE),
    ("GET /v1/failures", "/v1/failures", None, ALL),
    ("GET /v1/usage", "/v1/usage", None, BOUND),
    ("GET /v1/usage/review", "/v1/usage/review", None, WHOLE),
    ("GET /v1/audit/leaves", "/v1/audit/leaves", None, WHOLE),
    ("GET /v1/audit/checkpoint", "/v1/audit/checkpoint", None, [503, 503, *WHOLE[2:]]),
    ("GET /v1/audit/proof/{seq}", "/v1/audit/proof/0", None, [503, 503, *WHOLE[2:]]),
    ("GET /v1/audit/consistency", "/v1/audit/consistency?from=0", None, WHOLE),
    ("POST /v1/audit/checks", "/v1/audit/checks", None, WHOLE),
    ("POST /v1/audit/bundle", "/v1/audit/bundle", None, [503, 503, *WHOLE[2:]]),
    ("GET /v1/events/stream", "/v1/events/stream?seconds=0", None, ALL),
    ("GET /v1/doctor", "/v1/doctor", None, WHOLE),
    ("GET /metrics", "/metrics", None, [503, 503, 403, 403, 403, 403]),
    ("GET /v1/version", "/v1/version", None, ALL),
    ("GET /v1/openapi.json", "/v1/openapi.json", None, ALL),
    ("DELETE /v1/sessions/current", "/v1/sessions/current", None, [204] * 6),
]


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """(method, path template) of everything that answers."""
    return sorted(_walk(app.routes))


def _walk(served: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Routers are included flat by older versions of the framework and as one route each by newer ones."""
    for route in served:
        if hasattr(route, "original_router"):
            yield from _walk(route.original_router.routes)
        elif hasattr(route, "methods"):  # the others are sockets: test_executions has their roles
            yield from ((method, route.path) for method in sorted(route.methods))


def test_every_route_stands_in_the_table(house: ApiHouse) -> None:
    known = {row[0] for row in TABLE}
    served = {f"{method} {path}" for method, path in routes(house.app) if (method, path) not in OPEN_ROUTES}
    assert known == served


def test_nothing_but_the_open_routes_answers_without_a_credential(house: ApiHouse) -> None:
    nobody, wrong = house.as_(None), {"Authorization": "Bearer sy_" + "a" * 43}
    guarded = [route for route in routes(house.app) if route not in OPEN_ROUTES]
    assert len(guarded) >= len(TABLE)
    for method, path in guarded:
        for headers in ({}, wrong, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}):
            answer = nobody(method, path, **headers)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.requirement("I2")
def test_a_one_time_password_suffices_for_a_password_of_ones_own_only(house: ApiHouse) -> None:
    opened = house.as_(None)("POST", "/v1/sessions", {"user": "admin", "password": house.admin_password})
    admin = Api(house.app, opened.json()["token"])
    further = []
    for method, path in routes(house.app):
        if (method, path) not in OPEN_ROUTES | BEFORE_CHANGE:
            answer = admin(method, path.replace("{name}", "ann"))
            if (answer.status_code, answer.json().get("code")) != (403, "password-change-required"):
                further.append((method, path, answer.status_code))
    assert further == []
    others = admin("POST", "/v1/users/ann/password", {"new": "long-enough-word"})
    assert others.json()["code"] == "password-change-required"
    for new, status in ((house.admin_password, 400), ("a-password-of-mine", 200)):
        body = {"old": house.admin_password, "new": new}
        assert admin("POST", "/v1/users/admin/password", body).status_code == status
    assert admin("GET", "/v1/users").status_code == 200
    assert admin("POST", "/v1/tokens", {"name": "mine"}).status_code == 201


@pytest.mark.requirement("I2", "I6")
def test_every_role_gets_from_every_route_what_the_table_says(house: ApiHouse) -> None:
    wrong = []
    for route, address, body, expected in TABLE:
        method = route.partition(" ")[0]
        got = [house.as_(name)(method, address, body).status_code for name in WHO]
        if got != expected:
            wrong.append((route, got, expected))
    assert wrong == []
