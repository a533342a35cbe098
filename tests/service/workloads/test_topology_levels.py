"""Levels of topology, declared once: requests name one of them, and nodes without the label are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.locale import LANGUAGES, text
from steelyard.model.errors import InvalidError
from steelyard.services import declared, workloads
from steelyard.services.doctor import examine
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import request_of
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House
from tests.support.stores import doc

LEVELS = """
kind: SchedulingPolicy
metadata: {name: default}
spec: {topology: {levels: [zone, rack]}}
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """`n-0` has both labels, `n-1` no rack, `m-0` none."""
    folder: Path = tmp_path_factory.mktemp("levels")
    found = Found(labels={"n-0": {"zone": "a", "rack": "r1"}, "n-1": {"zone": "a"}})
    made = House(sqlite_url(folder), folder, wrap=lambda engine: FoundEngine(engine, found))
    made.apply(LEVELS)
    made.tick(3)
    yield made
    made.close()


def near(**topology: str) -> dict[str, Any]:
    document = request_of("gang")
    document["spec"]["topology"] = topology
    return document


def wrong(house: House, **topology: str) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        workloads.submit(house.desk, ADMIN, near(**topology))
    return caught.value


def test_a_level_that_is_not_declared_is_refused_with_those_that_are(house: House) -> None:
    error = wrong(house, required="rck")
    assert error.code == "topology-level-unknown"
    assert (error.params["path"], error.params["level"]) == ("spec.topology.required", "rck")
    assert error.params["known"] == "zone, rack"
    for lang in LANGUAGES:
        assert "zone, rack" in text(error.code, error.params, lang)
    assert wrong(house, required="zone", preferred="row").params["path"] == "spec.topology.preferred"


def test_what_is_preferred_is_nearer_than_what_is_required(house: House) -> None:
    for outer, inner in (("rack", "zone"), ("rack", "rack")):
        error = wrong(house, required=outer, preferred=inner)
        assert (error.code, error.params["outer"]) == ("topology-level-order", outer)
    done = workloads.submit(house.desk, ADMIN, near(required="zone", preferred="rack"))
    assert done["id"]


def test_where_no_levels_are_declared_any_label_is_one(tmp_path: Path) -> None:
    made = House(sqlite_url(tmp_path), tmp_path)
    made.tick(3)
    done = workloads.submit(made.desk, ADMIN, near(preferred="row"))
    made.close()
    assert done["id"]


def test_doctor_tells_how_many_nodes_lack_the_label_of_a_level(house: House) -> None:
    checks = {each.id: each for each in examine(house.store, ADMIN, {}, None)}
    assert checks["topology/zone"].params == {"level": "zone", "count": 1, "nodes": "other/m-0"}
    assert checks["topology/rack"].params == {"level": "rack", "count": 2, "nodes": "other/m-0, sim/n-1"}
    assert checks["topology/rack"].ok is None
    assert "m-0" in text("doctor.topology-label-missing", checks["topology/rack"].params, "en")


@pytest.mark.parametrize(
    ("levels", "path"),
    [
        (["zone", "zone"], "spec.topology.levels"),
        (["zone", "no such"], "spec.topology.levels[1]"),
        (["zone", "shelf"], "spec.topology.levels[1]"),  # not in the vocabulary
        ([f"l{number}" for number in range(9)], "spec.topology.levels"),
    ],
)
def test_levels_are_labels_of_the_vocabulary_without_doubles(
    house: House, levels: list[str], path: str
) -> None:
    raw = doc("SchedulingPolicy", "default", topology={"levels": levels})
    with pytest.raises(InvalidError) as caught:
        declared.apply(house.store, ADMIN, [parse_document(raw)])
    assert caught.value.params["path"] == path


def test_levels_are_exported_as_they_were_declared(house: House) -> None:
    found = declared.get_object(house.store, ADMIN, "SchedulingPolicy", "default")
    assert found.spec["topology"] == {"levels": ["zone", "rack"]}
