"""Strictness of declared documents and of workload documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.errors import InvalidError
from steelyard.model.resources import DeviceClass
from steelyard.services.documents import parse_document, parse_documents, stored_document
from steelyard.services.kinds import Kind, QueueSpec
from steelyard.services.reading import deep_merge, read_amount, write_amount
from steelyard.services.workload_document import parse_workload
from tests.support.stores import SMALL_HOUSE, doc


def refused(raw: Any) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        parse_document(raw)
    assert all(len(str(value)) < 300 for value in caught.value.params.values())
    return caught.value


@pytest.mark.parametrize("raw", SMALL_HOUSE, ids=lambda raw: f"{raw['kind']}/{raw['metadata']['name']}")
def test_the_normal_form_of_a_document_reads_as_the_same_document(raw: dict[str, Any]) -> None:
    once = parse_document(raw)
    again = stored_document(once.kind, once.name, dict(once.labels), once.body)
    assert again == once
    assert again.digest == once.digest


def test_an_unknown_key_is_refused_with_its_path() -> None:
    limits = [{"class": "gpu", "nominal": 1, "foo": 1}]
    error = refused(doc("Queue", "a", limits=limits))
    assert (error.code, error.params["path"]) == ("field-unknown", "spec.limits[0].foo")
    assert refused({**doc("Team", "a"), "status": 1}).params["path"] == "status"
    assert refused({"kind": "Team", "metadata": {"name": "a", "uid": 1}}).params["path"] == "metadata.uid"


@pytest.mark.parametrize(
    ("raw", "path", "near"),
    [
        (doc("Queue", "a", cohrt="b"), "spec.cohrt", "cohort"),
        (doc("Project", "a", taem="b"), "spec.taem", "team"),
        (doc("Queue", "a", limits=[{"class": "gpu", "nominl": 1}]), "spec.limits[0].nominl", "nominal"),
        ({"kind": "Team", "metadata": {"nane": "a"}}, "metadata.nane", "name"),
        (doc("Queue", "a", colour="red"), "spec.colour", None),
    ],
)
def test_a_misspelt_key_is_refused_with_the_one_that_it_resembles(
    raw: dict[str, Any], path: str, near: str | None
) -> None:
    error = refused(raw)
    assert (error.code, error.params["path"], error.params.get("near")) == ("field-unknown", path, near)


@pytest.mark.parametrize(
    "name", ["", "A", "-a", "a-", "a" * 64, "../x", "a b", "a\x1b[31m", "é", None, 5, ["a"], "a\n"]
)
def test_a_name_that_is_none_is_refused(name: object) -> None:
    assert refused({"kind": "Team", "metadata": {"name": name}}).code in {"name-invalid", "field-missing"}


def test_ten_megabytes_of_a_name_give_a_short_clear_error() -> None:
    error = refused({"kind": "Team", "metadata": {"name": "a" * 10_000_000}})
    assert error.code == "name-invalid"
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    "quantity", [float("nan"), float("inf"), -1, "-1", 2**70, "1e9", True, "", "0.0001", []]
)
def test_a_quantity_that_is_none_is_refused(quantity: object) -> None:
    error = refused(doc("Queue", "a", limits=[{"class": "gpu", "nominal": quantity}]))
    assert error.code.startswith("quantity-")
    assert error.params["path"] == "spec.limits[0].nominal"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        "Team",
        {"kind": "Team"},
        {"kind": "Teapot", "metadata": {"name": "a"}},
        {"kind": "Team", "metadata": [], "spec": {}},
        {"kind": "Team", "metadata": {"name": "a"}, "spec": []},
        doc("Routing", "other", routes=[]),
        doc("Quota", "q", team="a", project="b", limits=[{"class": "gpu", "hard": 1}]),
        doc("Quota", "q", team="a", limits=[]),
        doc("Queue", "q", limits=[{"class": "gpu", "flavor": "x", "nominal": 1}]),
        doc("Queue", "q", limits=[{"class": "gpu", "nominal": 1}] * 2),
        doc("Queue", "q", limits=[{"class": "tpu", "nominal": 1}]),
        doc("Cluster", "c", engine="slurm"),
        doc("Cluster", "c", engine="simulated"),
        doc("Binding", "b", user="u", role="administrator", project="p"),
        doc("Template", "t", version="1", spec={"rolls": []}),
    ],
)
def test_what_makes_no_sense_is_refused(raw: Any) -> None:
    refused(raw)


def test_the_document_of_a_list_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_documents([doc("Team", "a"), doc("Team", "B")])
    assert caught.value.params["document"] == 1
    with pytest.raises(InvalidError) as caught:
        parse_documents([doc("Team", "a"), doc("Team", "a")])
    assert caught.value.code == "document-doubled"


@given(resource=st.sampled_from(["gpu", "cpu", "memory"]), quantity=st.integers(0, 2**40))
def test_a_quantity_survives_writing_and_reading(resource: str, quantity: int) -> None:
    assert read_amount(write_amount(resource, quantity), resource, "x") == quantity


def test_limits_are_read_in_the_unit_of_their_class() -> None:
    limits = [{"class": "gpu", "nominal": "0.5"}, {"class": "memory", "nominal": "2Gi"}]
    spec = parse_document(doc("Queue", "a", limits=limits)).spec
    assert isinstance(spec, QueueSpec)
    assert [limit.nominal for limit in spec.limits] == [500, 2048]


# --- workloads --------------------------------------------------------------------------------------
def workload(**spec: Any) -> dict[str, Any]:
    role = {"name": "main", "command": ["python", "x.py"], "requests": {"cpu": "500m", "memory": 64}}
    body = {"kind": "training", "roles": [role], **spec}
    return {"kind": "Workload", "metadata": {"name": "w", "namespace": "n"}, "spec": body}


def no_template(name: str, version: str | None) -> None:
    return None


def test_a_workload_is_read_with_its_defaults() -> None:
    spec = parse_workload(workload(), no_template)
    assert spec.roles[0].request.amounts == ((DeviceClass.CPU, 500), (DeviceClass.MEMORY, 64))
    assert (spec.grace, spec.max_attempts, spec.preemptible, spec.hold) == (10_000_000, 3, True, False)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"foo": 1}, "spec.foo"),
        ({"roles": []}, "spec.roles"),
        ({"roles": [{"name": "a", "command": ["x"], "requests": {}}]}, "spec.roles[0].requests"),
        ({"roles": [{"name": "a", "command": [], "requests": {"cpu": 1}}]}, "spec.roles[0].command"),
        ({"roles": [{"name": "a", "command": ["x\0"], "requests": {"cpu": 1}}]}, "spec.roles[0].command[0]"),
        (
            {"roles": [{"name": "a", "command": ["x"], "requests": {"gpu": 1, "npu": 1}}]},
            "spec.roles[0].requests",
        ),
        (
            {"roles": [{"name": "a", "command": ["x"], "requests": {"cpu": 1}, "env": {"A-B": "c"}}]},
            "spec.roles[0].env.A-B",
        ),
        ({"artifacts": ["../../etc/passwd"]}, "spec.artifacts[0]"),
        ({"artifacts": ["/etc/passwd"]}, "spec.artifacts[0]"),
        ({"timeLimit": -1}, "spec.timeLimit"),
        ({"timeLimit": "400d"}, "spec.timeLimit"),
        ({"template": "nothing"}, "spec.template"),
        ({"maxAttempts": 0}, "spec.maxAttempts"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused_with_the_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_workload(workload(**spec), no_template)
    assert caught.value.params["path"] == path


def test_a_template_is_merged_beneath_and_lists_are_replaced() -> None:
    below = {
        "restart": "never",
        "grace": "3s",
        "roles": [{"name": "t", "command": ["t"], "requests": {"cpu": 1}}],
    }
    raw = workload(template="torch@2", grace="5s")
    spec = parse_workload(
        raw, lambda name, version: ("2", below) if (name, version) == ("torch", "2") else None
    )
    assert (spec.template, spec.restart.value, spec.grace) == ("torch@2", "never", 5_000_000)
    assert [role.name for role in spec.roles] == ["main"]


def test_mappings_merge_key_by_key() -> None:
    assert deep_merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": 3}, "d": []}) == {
        "a": {"b": 1, "c": 3},
        "d": [],
    }


# --- anything at all ----------------------------------------------------------------------------------
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
WORDS = re.findall(
    r"\w+",
    """name labels engine reserve simulation nodes cluster selector flavors team project environment user
role keys key meaning zh en values setBy metadata issuer date scope models environment fit needs admission
role parent limits class flavor nominal hard cohort routes queue priorityClass version spec value kind roles
command env requests cpu memory gpu probe path artifacts template timeLimit count""",
)
KEYS = st.sampled_from(WORDS) | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS | st.sampled_from(["a", "gpu", "local", "training", "1Gi", "30s", "x\x1b[2J", "../.."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


def read_or_short_error(read: Callable[[], Any]) -> Any:
    """What was read, or None for a refusal that is short."""
    try:
        return read()
    except InvalidError as error:
        if len(str(error)) > 1000:
            raise
        return None


@given(kind=st.sampled_from(Kind), spec=ANYTHING, labels=ANYTHING)
def test_whatever_is_written_in_a_document_is_read_or_refused(kind: Kind, spec: Any, labels: Any) -> None:
    raw = {"kind": kind.value, "metadata": {"name": "default", "labels": labels}, "spec": spec}
    found = read_or_short_error(lambda: parse_document(raw))
    if found is not None:
        assert stored_document(found.kind, found.name, dict(found.labels), found.body) == found


@given(spec=ANYTHING)
def test_whatever_is_written_in_a_workload_is_read_or_refused(spec: Any) -> None:
    raw = {"kind": "Workload", "metadata": {"name": "w", "namespace": "n"}, "spec": spec}
    read_or_short_error(lambda: parse_workload(raw, no_template))


@given(change=ANYTHING, key=KEYS)
def test_a_role_with_one_thing_wrong_is_read_or_refused(change: Any, key: str) -> None:
    role = {"name": "main", "command": ["x"], "requests": {"cpu": 1}, key: change}
    read_or_short_error(lambda: parse_workload(workload(roles=[role]), no_template))


def test_how_a_local_cluster_looks_for_accelerators_is_kept_in_its_normal_form() -> None:
    said = {"tools": ["/opt/vendor/bin"], "every": "15s", "health": {"hot": 95}, "hogs": {"cpu": "500m"}}
    body = {"kind": "Cluster", "metadata": {"name": "here"}, "spec": {"engine": "local", "devices": said}}
    found = parse_document(body)
    assert found.spec.to_spec()["devices"] == {"tools": ["/opt/vendor/bin"], "health": {"hot": 95}}
    body["spec"] = found.spec.to_spec()  # type: ignore[assignment]
    assert parse_document(body) == found
