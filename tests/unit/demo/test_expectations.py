"""Expectations: data with texts, decided by what was seen; what was not seen is not met."""

from __future__ import annotations

import re

import pytest

from steelyard.demo import documents
from steelyard.demo.closing import balances, same_as_export, states_sum
from steelyard.demo.expect import Expectation, Found, Seen, found, judge
from steelyard.demo.steps import STEPS
from steelyard.locale import has
from steelyard.services.documents import parse_documents
from steelyard.services.workload_document import parse_workload
from tests.support.demo_facts import segments, usage
from tools import requirements

EXPECTATIONS = [expectation for step in STEPS for expectation in step.expectations]


def test_every_step_and_expectation_has_a_text() -> None:
    codes = [f"demo.step.{step.id}" for step in STEPS] + [e.said.code for e in EXPECTATIONS]
    assert [code for code in codes if not has(code)] == []


def test_ids_of_expectations_are_unique() -> None:
    ids = [expectation.id for expectation in EXPECTATIONS]
    assert len(ids) == len(set(ids))


def test_every_requirement_that_is_named_exists() -> None:
    known = {row.id for row in requirements.read_rows()}
    assert {row for expectation in EXPECTATIONS for row in expectation.rows} <= known


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda expectation: expectation.id)
def test_nothing_seen_is_not_met_and_says_why(expectation: Expectation) -> None:
    result = judge(expectation, Seen(), "the server fell silent")
    assert not result.ok
    assert has(result.seen.code)
    assert "silent" in str(result.seen.params.get("reason"))


def test_a_check_that_meets_an_odd_answer_is_not_met() -> None:
    def check(seen: Seen) -> Found:
        return found(seen["a"]["b"] > 1, "status", status=200)

    assert not judge(Expectation("x", (), check), Seen(a=None)).ok
    assert judge(Expectation("x", (), check), Seen(a={"b": 2})).ok


def test_declared_documents_are_accepted_by_the_server_s_own_reader() -> None:
    assert len(parse_documents(documents.declared())) == len(documents.declared())


def test_workload_documents_are_accepted_once_filled_in() -> None:
    for name in [document["metadata"]["name"] for document in documents._read("workloads")]:
        values = {"PYTHON": "/p", "EXAMPLES": "/e", "MODEL": "/m", "MODEL_WORKLOAD": "wl_0apjhbrnm0400"}
        filled = documents.workload(name, {**values, "MODEL_DIGEST": "sha256:" + "0" * 64})
        assert parse_workload(filled, lambda _name, _version: None).name == name
        assert not re.search(r"\$[A-Z]", str(filled))


def test_usage_is_summed_again_from_its_rows() -> None:
    assert {key: balance.difference for key, balance in balances(usage()).items()} == {
        ("cpu", False): 0,
        ("gpu", True): 0,
    }


@pytest.mark.requirement("L23")
def test_one_missing_microsecond_is_seen() -> None:
    answer = usage()
    answer["rows"][0]["held"] = str(int(answer["rows"][0]["held"]) - 1)
    assert sorted(balance.difference for balance in balances(answer).values()) == [0, 1]
    assert not states_sum(answer)


@pytest.mark.requirement("L24")
def test_exported_segments_are_compared_with_the_answer_within_its_window() -> None:
    rows, _ = segments()
    pairs = same_as_export(usage(), rows)
    assert all(asked == exported for asked, exported in pairs.values())
    longer = [{**row, "t1": row["t1"] + 5} for row in rows if row["kind"] == "holding"]
    assert any(asked != exported for asked, exported in same_as_export(usage(), longer).values())
