"""What queues guarantee stays within what they own, also when several ask at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.model.errors import ConflictError, RefusedError, SteelyardError
from steelyard.model.reasons import ReasonCode
from steelyard.services import guarantees
from steelyard.services.bulk import submit_many
from steelyard.services.declared import apply
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.control.test_scaling import POLICY, SERVICE
from tests.support.house import ADMIN, House


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A queue `serve` that owns 4 GPUs."""
    url = sqlite_url(tmp_path)
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_database")
    made = House(url, tmp_path, POLICY)
    yield made
    made.close()


def serve(house: House, name: str = "api", **replicas: Any) -> str:
    return house.submit(name, **SERVICE, replicas={"initial": 1, "guaranteed": 1, "max": 2, **replicas})


def promised(house: House) -> int:
    """GPUs that the queue guarantees, in milli-devices."""
    with house.store.read() as view:
        found = guarantees._promised(view).get("serve", {})
    return sum(amount for device_class, amount in found.items() if device_class == "gpu")


@pytest.mark.requirement("H7")
def test_services_submitted_at_one_instant_are_guaranteed_no_more_than_the_queue_owns(house: House) -> None:
    together, refused = threading.Barrier(8), list[str]()

    def ask(number: int) -> str:
        together.wait()
        try:
            return serve(house, f"api-{number}")
        except RefusedError as error:
            refused.extend(reason.code for reason in error.reasons)
            return ""

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert sum(map(bool, found)) == 2
    assert refused == [ReasonCode.EXCEEDS_GUARANTEE] * 6
    assert promised(house) == 4000


def document(name: str) -> dict[str, Any]:
    role = {"name": "main", "command": ["serve"], **{key: SERVICE[key] for key in ("requests", "expect")}}
    spec = {"kind": "inference", "queue": "serve", "replicas": {"initial": 1, "guaranteed": 1, "max": 1}}
    return {
        "kind": "Workload", "metadata": {"name": name, "namespace": "detect-dev"},
        "spec": {**spec, "roles": [role]},
    }  # fmt: skip


def test_services_of_one_request_are_judged_one_after_another(house: House) -> None:
    found = submit_many(
        house.desk, ADMIN, [document(f"api-{number}") for number in range(4)], status_of=lambda _: 422
    )
    assert found[0].id is not None
    errors: list[SteelyardError | None] = [one.error for one in found if one.id is None]
    assert [error.code if error else None for error in errors] == ["refused", "refused"]
    assert promised(house) == 4000


def queue(nominal: str) -> list[Any]:
    spec = {"cohort": "all", "owner": "platform", "limits": [{"class": "gpu", "nominal": nominal}]}
    return [parse_document({"kind": "Queue", "metadata": {"name": "serve"}, "spec": spec})]


@pytest.mark.requirement("H7")
def test_a_queue_can_not_come_to_own_less_than_it_guarantees(house: House) -> None:
    serve(house, guaranteed=2)
    with pytest.raises(ConflictError, match="guarantee-above-nominal") as caught:
        apply(house.store, ADMIN, queue("3"))
    assert caught.value.params == {
        "queue": "serve", "resource": "gpu", "nominal": 3000, "guaranteed": 4000, "over": 1000,
    }  # fmt: skip
    with pytest.raises(ConflictError, match="guarantee-above-nominal"):
        apply(house.store, ADMIN, queue("3"), dry_run=True)
    apply(house.store, ADMIN, queue("4500m"))


def test_a_queue_that_guaranteed_too_much_already_may_come_to_own_more(house: House) -> None:
    serve(house, guaranteed=2)
    documents = [parse_document(one) for one in yaml.safe_load_all(POLICY)]
    before = {one.key: one for one in [*documents, *queue("1")]}.values()
    with house.store.read() as view:
        for nominal, allowed in (("2", True), ("1", True), ("500m", False)):
            after = {one.key: one for one in [*documents, *queue(nominal)]}.values()
            if allowed:
                guarantees.check_within(view, before, after)
            else:
                with pytest.raises(ConflictError):
                    guarantees.check_within(view, before, after)


def test_a_service_and_a_smaller_quota_at_one_instant_do_not_both_pass(house: House) -> None:
    together = threading.Barrier(2)
    refused = []

    def ask(act: Any) -> None:
        together.wait()
        try:
            act()
        except (ConflictError, RefusedError) as error:
            refused.append(error)

    acts = [lambda: serve(house, guaranteed=2), lambda: apply(house.store, ADMIN, queue("3"))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, acts))
    assert len(refused) == 1
