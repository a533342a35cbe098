"""Figures for a monitoring system, and whether a server is ready."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from steelyard.api.app import create_app
from steelyard.api.context import Services
from steelyard.services.metrics import MOST_NAMES, Loop, Meters
from steelyard.store import figures
from steelyard.store.database import writing
from steelyard.store.store import Store
from tests.service.api.conftest import Api, ApiHouse
from tests.support.stores import apply, doc


def with_meters(house: ApiHouse, user: str) -> Api:
    """A client of the same house, with what a server counts."""
    store = house.services.store
    services = Services.over(store, meters=Meters(store, lambda: Loop(True, 0.5, False)))
    return Api(create_app(services), house.secrets[user])


def series(text: str) -> dict[str, dict[str, float]]:
    """name → labels as text → value."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[key] = sample.value
    return found


def test_metrics_count_what_is_asked_and_say_what_is_there(house: ApiHouse) -> None:
    ask = with_meters(house, "admin")
    for path in ("/v1/me", "/v1/users/../../etc/passwd", "/nothing/here"):
        ask("GET", path)
    ask("BREW", "/v1/me")
    answer = ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = series(answer.text)
    assert found["steelyard_request_seconds_count"]["method=GET,route=/v1/me,status=200"] == 1
    keys = found["steelyard_request_seconds_count"]
    labels = [dict(part.split("=") for part in key.split(",")) for key in keys]
    assert {label["route"] for label in labels} <= {"/v1/me", "other"}
    assert {label["method"] for label in labels} <= {"GET", "other"}
    assert found["steelyard_workloads"]["phase=queued"] == 0
    assert found["steelyard_log_leaves"][""] > 0
    assert found["steelyard_leading"] == {"": 1.0}
    assert found["steelyard_writer_failing"] == {"": 0.0}
    assert found["steelyard_pools_closed"] == {"cause=drift": 0.0, "cause=operator": 0.0}
    assert found["steelyard_verifications"] == {"": 0.0}
    assert found["steelyard_build_info"]


def test_a_monitor_reads_metrics_and_nothing_else(house: ApiHouse) -> None:
    apply(house.services.store, doc("Binding", "watch", user="nob", role="monitor"))
    ask = with_meters(house, "nob")
    assert ask("GET", "/metrics").status_code == 200
    for path in ("/v1/inventory", "/v1/queues", "/v1/cycles", "/v1/usage", "/v1/audit/leaves", "/v1/doctor"):
        assert ask("GET", path).status_code == 403, path
    assert ask("GET", "/v1/refusals").json()["items"] == []


@pytest.mark.parametrize(("user", "status"), [("ann", 403), ("vic", 403), ("aud", 200), ("admin", 200)])
def test_metrics_are_of_the_whole_installation(house: ApiHouse, user: str, status: int) -> None:
    assert with_meters(house, user)("GET", "/metrics").status_code == status


def test_names_are_bounded(house: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [figures.Waiting(f"q{number:04d}", 2, 0) for number in range(MOST_NAMES + 5)]
    monkeypatch.setattr(figures, "waiting", lambda _view: many)
    found = series(with_meters(house, "admin")("GET", "/metrics").text)
    assert len(found["steelyard_queue_waiting"]) == MOST_NAMES + 1
    assert found["steelyard_queue_waiting"]["queue=other"] == 10


def test_a_server_is_ready_only_while_it_can_write(house: ApiHouse) -> None:
    services = Services.over(house.services.store)
    client = TestClient(create_app(services))
    assert client.get("/readyz").json() == {"status": "ok"}
    services.extra["control"] = object()
    problem = client.get("/readyz")
    assert (problem.status_code, problem.json()["params"]["codes"]) == (503, "lease-unknown")
    services.stopping.set()
    assert client.get("/readyz").json()["params"]["codes"] == "server-stopping, lease-unknown"
    assert client.get("/healthz").status_code == 200


def test_a_failed_write_is_forgotten_once_one_succeeds(house: ApiHouse) -> None:
    client = TestClient(create_app(Services.over(house.services.store)))
    writer = house.services.store.writer
    writer.broken = OSError("full")
    assert client.get("/readyz").status_code == 200
    assert writer.broken is None


def test_a_database_that_was_upgraded_meanwhile_is_not_ready(store: Store) -> None:
    client = TestClient(create_app(Services.over(store)))
    with writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    problem = client.get("/readyz").json()
    assert problem["params"]["codes"] == "database-newer"
