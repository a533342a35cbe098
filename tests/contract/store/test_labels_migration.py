"""Labels that were in use before there was a vocabulary are known after the upgrade, and pools are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from steelyard.model.errors import RefusedError
from steelyard.services import declared, workloads
from steelyard.services.documents import parse_documents
from steelyard.services.labels import INHERITED_KEYS
from steelyard.store.database import sqlite_url, writing
from steelyard.store.migrate import upgrade_to
from tests.support.house import ADMIN, House

DECLARED = (
    "INSERT INTO declared (id, kind, name, valid_from, valid_to, version, labels_json, spec_json, digest)"
    " VALUES (:id, :kind, :name, 1, :until, 1, '{}', :spec, 'd')"
)
SHAPE = "INSERT INTO shape (id, key, body_json) VALUES (:id, :key, :body)"


def pool(**labels: str) -> str:
    return json.dumps({"cluster": "c", "purpose": "whatever it was", "selector": {"labels": labels}})


def body(*roles: list[list[str]]) -> str:
    """A shape as it was written: without white space."""
    listed = [["main", 1, {"amounts": [["cpu", 1000]], "node_labels": labels}] for labels in roles]
    return json.dumps({"key": "k", "roles": listed}, separators=(",", ":"))


@pytest.fixture(params=["sqlite", "postgresql"])
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database from before the vocabulary: pools, a template, and shapes that name labels."""
    url = f"sqlite:///{tmp_path}/old.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_database")
    engine = create_engine(url)
    template = json.dumps({"version": "1", "spec": {"roles": [{"nodeLabels": {"of-template": "x"}}]}})
    with writing(engine) as connection:
        upgrade_to(connection, "0001")
        for number, (kind, name, until, spec) in enumerate(
            [
                ("Pool", "a", None, pool(generation="three", zone="a")),
                ("Pool", "b", 5, pool(retired="yes")),
                ("Template", "t", None, template),
                ("Team", "x", None, "{}"),
            ]
        ):
            row = {"id": number, "kind": kind, "name": name, "until": until, "spec": spec}
            connection.execute(text(DECLARED), row)
        for number, shape in enumerate([body([]), body([], [["of-request", "y"]])]):
            connection.execute(text(SHAPE), {"id": number, "key": str(number), "body": shape})
    yield engine
    engine.dispose()


def test_keys_of_pools_templates_and_requests_are_kept(before: Engine) -> None:
    with writing(before) as connection:
        upgrade_to(connection, "0011")
        kept = connection.execute(
            text("SELECT value FROM setting WHERE name = :name"), {"name": INHERITED_KEYS}
        ).scalar_one()
    assert json.loads(kept) == ["generation", "of-request", "of-template", "zone"]


def test_what_was_in_use_goes_on_being_asked_for_and_what_was_not_is_refused(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    try:
        with writing(house.store.engine) as connection:
            connection.execute(
                text("INSERT INTO setting (name, value) VALUES (:name, :value)"),
                {"name": INHERITED_KEYS, "value": '["generation"]'},
            )
            spec = json.dumps({"cluster": "other", "purpose": "cores of the old room", "owner": "platform",
                               "flavors": [{"name": "other-cpu", "class": "cpu"},
                                           {"name": "other-memory", "class": "memory"}]})  # fmt: skip
            connection.execute(
                text("UPDATE declared SET spec_json = :spec WHERE kind = 'Pool' AND name = 'cores'"),
                {"spec": spec},
            )
        told = _refused(house, "generation")
        assert told["code"] == "label-mismatch"  # known, but no node has it
        assert _refused(house, "colour")["code"] == "label-unknown"
        found = declared.get_object(house.store, ADMIN, "Pool", "cores")
        assert found.spec["about"] == "cores of the old room"
        exported = parse_documents(declared.export(house.store, ADMIN))
        assert {one.action for one in declared.apply(house.store, ADMIN, exported)} == {"unchanged"}
        house.submit("on-cores", requests={"cpu": "1", "memory": "1Gi"}, kind="batch")
        house.run_dry()
    finally:
        house.close()


def _refused(house: House, key: str) -> dict[str, object]:
    role = {"name": "main", "command": ["x"], "requests": {"cpu": 1}, "nodeLabels": {key: "three"}}
    document = {"kind": "Workload", "metadata": {"name": "x", "namespace": "detect-dev"},
                "spec": {"kind": "batch", "roles": [role]}}  # fmt: skip
    with pytest.raises(RefusedError) as caught:
        workloads.submit(house.desk, ADMIN, document)
    return {"code": caught.value.reasons[0].code}
