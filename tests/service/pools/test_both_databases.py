"""The whole way on both databases: a type comes in, is verified, its pool closes and opens, all is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.services import (
    declared,
    label_history,
    label_lint,
    pools,
    register,
    resource_admissions,
    verifications,
)
from steelyard.services.device_page import show_device
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import RULES, refusal, request_of
from tests.service.pools.test_verification import ENTRY, SOURCE, all_but_the_last, ran, step
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    found: str = request.getfixturevalue("postgresql_database")
    return found


def test_a_type_comes_in_is_verified_and_its_pool_closes_and_opens(url: str, tmp_path: Path) -> None:
    found = Found(detected=True)
    house = House(url, tmp_path, wrap=lambda engine: FoundEngine(engine, found))
    try:
        house.apply(RULES.replace('cuda: "12.4"', 'cuda: "12.4", driver: "550"'))
        documents = [parse_document(SOURCE), parse_document(ENTRY)]
        declared.apply(house.store, ADMIN, documents, reason="all of it")
        house.tick(3)
        assert register.show(house.store, ADMIN, "llm")["answer"] == "pending"
        admission = all_but_the_last(house)
        step(house, admission, "verification", workload=ran(house))
        assert resource_admissions.finish(house.store, ADMIN, admission)["standing"] == "verified"
        assert register.list_all(house.store, ADMIN)[0]["answer"] == "yes"
        assert show_device(house.store, ADMIN, "n-0/gpu-0")["support"]["standing"] == "verified"
        (flavor, *_) = pools.list_all(house.store, ADMIN)[0]["flavors"]
        assert (flavor["devices"], flavor["available"]) == (8, 8)
        found.drivers["n-0/gpu-0"] = "535"
        for agent in house.loop.agents.values():
            agent.look_again()
        house.tick(3)
        assert refusal(house, request_of())[0]["code"] == "pool-closed"
        pools.open_again(house.store, ADMIN, "accelerators", "known")
        pools.close(house.store, ADMIN, "accelerators", "moving")
        house.tick(2)
        assert [one["cause"] for one in pools.show(house.store, ADMIN, "accelerators")["closings"]] == [
            "operator", "drift",
        ]  # fmt: skip
        refusal(house, request_of(nodeLabels={"colour": "red"}))
        assert label_lint.lint(house.store, ADMIN)["figures"]["too_few"] == 1
        assert label_history.history(house.store, ADMIN)["vocabulary"] == []
        (record,) = verifications.list_all(house.store, ADMIN)
        verifications.end(house.store, ADMIN, record["id"], "replaced")
        house.tick(2)
        assert register.show(house.store, ADMIN, "llm")["answer"] == "pending"
    finally:
        house.close()
