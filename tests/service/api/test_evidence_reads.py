"""Reading the evidence leaves a leaf that says who read what, and never a flood of them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.units import MINUTE
from steelyard.services.evidence_reads import AGAIN, MAX_A_MINUTE, EvidenceReads
from steelyard.services.keys import open_log_key
from steelyard.store.leaves import bodies, log_size
from steelyard.store.store import Store
from tests.service.api.conftest import ApiHouse
from tests.support.house import ADMIN
from tests.support.stores import Clock


def reads(store: Store) -> list[dict[str, Any]]:
    with store.read() as view:
        found = [json.loads(body) for body in bodies(view, 0, log_size(view))]
    return [leaf for leaf in found if leaf["action"] == "evidence.read"]


def told(store: Store) -> list[tuple[str, str | None]]:
    return [(leaf["detail"]["what"], leaf["detail"]["subject"]) for leaf in reads(store)]


@pytest.mark.requirement("K12")
def test_reading_records_checkpoints_and_bundles_stands_in_the_log(house: ApiHouse, tmp_path: Path) -> None:
    services = house.services
    services.signer = open_log_key(services.store, tmp_path)
    ask = house.as_("admin")
    assert ask("GET", "/v1/audit/leaves?stream=system").status_code == 200
    assert ask("GET", "/v1/audit/proof/0").status_code == 200
    assert ask("GET", "/v1/audit/checkpoint").status_code == 200
    answer = ask("POST", "/v1/audit/bundle", {})
    assert told(services.store) == [
        ("leaves", "system"), ("record", "0"), ("checkpoint", None), ("bundle", None),
    ]  # fmt: skip
    first = reads(services.store)[0]
    assert first["actor"]["id"].startswith("us_")
    assert first["origin"]["ip"]["h"]
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        inside = archive.extractfile("audit/leaves.jsonl")
        assert inside is not None
        assert b'"what":"bundle"' in inside.read()


@pytest.mark.requirement("K12")
def test_what_may_not_be_read_is_no_reading(house: ApiHouse) -> None:
    assert house.as_("ann")("GET", "/v1/audit/leaves").status_code == 403
    assert house.as_("admin")("GET", "/v1/audit/leaves?stream=nowhere").status_code == 404
    assert reads(house.services.store) == []


def test_the_same_read_again_soon_is_said_once(store: Store, clock: Clock) -> None:
    book = EvidenceReads(store)
    for _ in range(5):
        book.note(ADMIN, "leaves", "system", None)
    clock.forward(AGAIN)
    book.note(ADMIN, "leaves", "system", None)
    assert len(reads(store)) == 2


def test_nobody_fills_the_log_by_reading_it_and_the_rest_is_counted(store: Store, clock: Clock) -> None:
    book = EvidenceReads(store)
    for seq in range(MAX_A_MINUTE + 7):
        book.note(ADMIN, "record", str(seq), None)
    assert len(reads(store)) == MAX_A_MINUTE
    clock.forward(MINUTE)
    book.note(ADMIN, "record", "99", None)
    assert reads(store)[-1]["detail"]["left_out"] == 7
