"""A database of the spine with failures in it: its verdicts are read in the form of now after the upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from steelyard.store.database import writing
from steelyard.store.migrate import upgrade_to

OLD_VERDICT = {
    "stage": "application", "code": "exit-code", "group": "business", "responsible": "submitter",
    "action": "look-at-log", "evidence": ["mb_1:exit=7", "mb_1:log"], "confidence": "high",
}  # fmt: skip
ATTEMPT = (
    "INSERT INTO attempt (id, workload_id, number, phase, simulated, queue, priority, submitted, version,"
    " verdict_json) VALUES (:id, 1, :id, 'finished', false, 'q', 1, 1, 1, :verdict)"
)
REFUSAL = (
    "INSERT INTO refusal (id, at, principal, submitter, request_digest, asked_json, reasons_json, complete,"
    " policy_version, review_state) VALUES (1, 1, 'us', 'ann', 'd', '{}', :reasons, true, 1, 'open')"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def spine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database as the first version left it, with two ended attempts and a refusal."""
    url = f"sqlite:///{tmp_path}/old.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_database")
    engine = create_engine(url)
    with writing(engine) as connection:
        upgrade_to(connection, "0001")
        connection.execute(text(ATTEMPT), {"id": 1, "verdict": json.dumps(OLD_VERDICT)})
        connection.execute(text(ATTEMPT), {"id": 2, "verdict": None})
        connection.execute(text(REFUSAL), {"reasons": json.dumps([{"code": "over-limit"}])})
    yield engine
    engine.dispose()


def test_verdicts_of_the_spine_point_at_counters_after_the_upgrade(spine: Engine) -> None:
    with writing(spine) as connection:
        upgrade_to(connection, "0003")
        row = connection.execute(text("SELECT * FROM attempt WHERE id = 1")).one()
    verdict = json.loads(row.verdict_json)
    assert (verdict["evidence"][0]["field"], verdict["evidence"][0]["value"]) == ("exit_code", 7)
    assert verdict["params"] == {"exit": 7}
    assert (row.failure_stage, row.failure_group) == ("application", "business")
    assert row.failure_signature == verdict["signature"]


def test_an_attempt_without_a_verdict_and_a_refusal_are_upgraded_too(spine: Engine) -> None:
    with writing(spine) as connection:
        upgrade_to(connection, "0003")
        signed = connection.execute(text("SELECT failure_signature FROM attempt WHERE id = 2")).scalar_one()
        stage = connection.execute(text("SELECT failure_stage FROM refusal")).scalar_one()
    assert (signed, stage) == (None, "queue")
