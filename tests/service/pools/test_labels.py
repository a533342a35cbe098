"""The vocabulary: what is not in it is refused in documents and requests, and only shown on nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import InvalidError, RefusedError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import declared, label_history, label_lint, workloads
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import refusal, request_of
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House
from tests.support.stores import doc

ANN = Principal("us_0000000000002", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
BOTH = {"zh": "含义", "en": "meaning"}


@pytest.fixture
def found() -> Found:
    """What the engines report of their nodes."""
    return Found(labels={"n-0": {"zone": "a", "vendor.example/foo": "1"}, "n-1": {"zone": "b"}})


@pytest.fixture
def house(tmp_path: Path, found: Found) -> Iterator[House]:
    """With labels on two nodes, one of them foreign."""
    made = House(sqlite_url(tmp_path), tmp_path, wrap=lambda engine: FoundEngine(engine, found))
    yield made
    made.close()


def vocabulary(*keys: dict[str, Any], metadata: str = "closed") -> dict[str, Any]:
    explained = [{"meaning": BOTH, **key} for key in keys]
    return doc("LabelVocabulary", "default", metadata=metadata, keys=explained)


def declare(house: House, *raw: dict[str, Any], reason: str | None = None) -> None:
    declared.apply(house.store, ADMIN, [parse_document(one) for one in raw], reason=reason)
    house.tick(2)


def pool(**changes: Any) -> dict[str, Any]:
    return doc("Pool", "accelerators", **{
        "cluster": "sim",
        "flavors": [{"name": "a100", "class": "gpu"}, {"name": "sim-cpu", "class": "cpu"},
                    {"name": "sim-memory", "class": "memory"}],
    } | changes)  # fmt: skip


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(
    ("changes", "path", "key"),
    [
        ({"selector": {"labels": {"colour": "red"}}}, "spec.selector.labels.colour", "colour"),
        ({"environment": {"colour": "red"}}, "spec.environment.colour", "colour"),
        ({"fit": [{"class": "gpu", "needs": {"colour": ["red"]}}]}, "spec.fit[0].needs.colour", "colour"),
    ],
)
def test_a_key_that_is_not_in_the_vocabulary_is_refused_in_a_document(
    shared: House, changes: dict[str, Any], path: str, key: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        declare(shared, pool(**changes))
    assert caught.value.code == "label-unknown"
    assert (caught.value.params["path"], caught.value.params["key"]) == (path, key)


@pytest.mark.requirement("C1")
def test_a_key_or_value_that_is_not_in_the_vocabulary_is_refused_in_a_request(house: House) -> None:
    (reason,) = refusal(house, request_of(nodeLabels={"colour": "red"}))
    assert (reason["code"], reason["key"], reason["per"]) == ("label-unknown", "colour", "key")
    declare(house, vocabulary({"key": "zone", "values": ["a", "b"]}))
    (reason,) = refusal(house, request_of(nodeLabels={"zone": "c"}))
    assert (reason["key"], reason["value"], reason["known"]) == ("zone", "c", "a, b")
    declare(house, vocabulary({"key": "zone", "placement": False}))
    (reason,) = refusal(house, request_of(nodeLabels={"zone": "a"}))
    assert reason["per"] == "placement"


@pytest.mark.requirement("C1")
def test_a_foreign_label_of_a_node_is_shown_and_never_matched(house: House) -> None:
    told = label_lint.list_all(house.store, ADMIN)
    assert told["foreign"] == [{"key": "vendor.example/foo", "count": 1}]
    (reason,) = refusal(house, request_of(nodeLabels={"vendor.example/foo": "1"}))
    assert reason["code"] == "label-unknown"
    with pytest.raises(InvalidError):
        declare(house, pool(selector={"labels": {"vendor.example/foo": "1"}}))
    house.submit("runs", count=2, requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    house.run_dry()  # the node itself is as good as any


def test_metadata_is_governed_from_the_first_declared_vocabulary_on(house: House) -> None:
    free = {**request_of("free"), "metadata": {"name": "free", "namespace": "detect-dev",
                                               "labels": {"anything": "goes"}}}  # fmt: skip
    workloads.submit(house.desk, ADMIN, free)
    governed, own_key = {"key": "data", "setBy": ["governance"]}, {"key": "study", "setBy": ["submitter"]}
    declare(house, vocabulary(governed, own_key))
    (reason,) = refusal(house, free)
    assert (reason["code"], reason["key"]) == ("label-unknown", "anything")
    with pytest.raises(InvalidError):
        declare(house, {**pool(), "metadata": {"name": "accelerators", "labels": {"anything": "goes"}}})
    own = {**free, "metadata": {**free["metadata"], "labels": {"study": "x"}}}
    workloads.submit(house.desk, ANN, own)
    theirs = {**free, "metadata": {**free["metadata"], "labels": {"data": "x"}}}
    with pytest.raises(RefusedError) as caught:
        workloads.submit(house.desk, ANN, theirs)
    assert caught.value.reasons[0].params["per"] == "set-by"
    house.run_dry()


def test_a_key_that_a_pool_uses_does_not_leave_the_vocabulary(house: House) -> None:
    declare(house, pool(environment={"framework": "jax"}))
    with pytest.raises(InvalidError) as caught:
        declare(house, vocabulary({"key": "zone"}))
    assert (caught.value.params["name"], caught.value.params["key"]) == ("accelerators", "framework")
    declare(house, vocabulary({"key": "zone"}, {"key": "framework", "values": ["jax"]}))


@pytest.mark.requirement("C2", "C3")
def test_the_lint_counts_too_few_too_many_unused_and_foreign(house: House) -> None:
    refusal(house, request_of(nodeLabels={"colour": "red"}))
    declare(
        house,
        pool(environment={"cuda": "12.4", "framework": "jax"},
             fit=[{"class": "gpu", "needs": {"cuda": ["12.4"]}}]),
        doc("Template", "plain", version="1", spec={"kind": "training", "roles": [
            {"name": "main", "command": ["run"], "requests": {"gpu": 1, "cpu": 1, "memory": "1Gi"},
             "needs": {"cuda": "12.4"}, "expect": {"run": "1s"}}]}),
    )  # fmt: skip
    workloads.submit(house.desk, ADMIN, request_of("special", needs={"cuda": "12.4", "framework": "jax"}))
    common = {"kind": "Workload", "metadata": {"name": "common", "namespace": "detect-dev"},
              "spec": {"template": "plain"}}  # fmt: skip
    workloads.submit(house.desk, ADMIN, common)
    told = label_lint.lint(house.store, ADMIN)
    assert told["too_few"] == [{"key": "colour", "refused": 1, "templates": 0}]
    assert told["too_many"]["requests"] == {
        "looked_at": 1, "with_low_level": 1, "keys": [{"key": "cuda", "count": 1}],
    }  # fmt: skip
    assert told["too_many"]["from_templates"] == {"looked_at": 1, "named": 0, "keys": []}
    assert told["too_many"]["demanded_by_pools"] == ["cuda"]
    assert "rack" in told["unused"]
    assert "zone" not in told["unused"]
    figures = told["figures"]
    assert (figures["too_many_templates"], figures["foreign_keys"], figures["foreign_nodes"]) == (0, 1, 1)
    other = Principal("us_0000000000003", "user", "bob", (Binding("bob", RoleName.MEMBER, "translate", 1),))
    assert label_lint.lint(house.store, other)["too_few"] == []  # what others asked for is not theirs to see
    declare(house, vocabulary({"key": "colour"}, {"key": "cuda"}, {"key": "framework"}, {"key": "zone"}))
    assert label_lint.lint(house.store, ADMIN)["too_few"] == []
    house.run_dry()


@pytest.mark.requirement("B7")
def test_the_history_of_labels_says_who_changed_what_and_why(house: House, found: Found) -> None:
    declare(house, vocabulary({"key": "zone", "values": ["a", "b"]}), reason="two rooms")
    declare(house, vocabulary({"key": "zone", "values": ["a", "b", "c"]}, {"key": "rack"}), reason="a third")
    found.labels["n-0"] = {"zone": "c"}
    for agent in house.loop.agents.values():
        agent.look_again()
    house.tick(3)
    told = label_history.history(house.store, ADMIN, "zone")
    assert [(e["change"], e["reason"], e["version"]) for e in told["vocabulary"]] == [
        ("changed", "a third", 2), ("changed", "two rooms", 1),
    ]  # fmt: skip
    assert all(entry["by"] == ADMIN.id for entry in told["vocabulary"])  # no account has this id
    values = [(e["node"], e["value"], e["until"] is None) for e in told["nodes"]]
    assert values == [("n-0", "a", False), ("n-0", "c", True), ("n-1", "b", True)]
    removed = label_history.history(house.store, ADMIN, "rack")["vocabulary"]
    assert [(entry["change"], entry["version"]) for entry in removed] == [("added", 2), ("removed", 1)]


@pytest.mark.parametrize(
    "spec",
    [
        {"keys": [{"key": "zone"}]},
        {"keys": [{"key": "zone", "meaning": {"en": "x"}}]},
        {"keys": [{"key": "bad key", "meaning": BOTH}]},
        {"keys": [{"key": "zone", "meaning": BOTH, "values": []}]},
        {"keys": [{"key": "zone", "meaning": BOTH, "setBy": ["anybody"]}]},
        {"keys": [{"key": "zone", "meaning": BOTH}] * 2},
        {"metadata": "ajar", "keys": []},
    ],
)
def test_a_vocabulary_is_read_strictly(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        parse_document(doc("LabelVocabulary", "default", **spec))


def test_there_is_one_vocabulary() -> None:
    with pytest.raises(InvalidError):
        parse_document(doc("LabelVocabulary", "mine", keys=[]))
