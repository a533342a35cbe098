"""What is wrong in a document is told at once: each place once, nothing that only follows from another."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.model.errors import InvalidError
from steelyard.services.documents import parse_document, parse_documents
from steelyard.services.faults import MOST, Faults, pointer
from steelyard.services.refusals import told_again, told_body
from steelyard.services.workload_document import parse_workload
from tests.support.house import DOCUMENTS
from tests.support.worlds import workload

FULL: dict[str, Any] = {
    "kind": "training", "timeLimit": "1h", "grace": "5s", "restart": "never", "artifacts": ["out/model.npz"],
    "workFolder": {"sizeLimit": "1Gi"}, "array": {"completions": 3, "parallelism": 2}, "hold": True,
    "replicas": {"initial": 1, "max": 2}, "idleLimit": {"after": "1m"},
    "evaluation": {"model": {"name": "m"}, "dataset": {"name": "d"}, "result": "r.json"},
    "roles": [
        {
            "name": "main", "count": 2, "command": ["python", "x"], "env": {"A": "1"}, "image": "a/b",
            "requests": {"cpu": "500m", "memory": "2Gi", "gpu": 1}, "models": ["A100"], "pull": "missing",
            "nodeLabels": {"zone": "a"}, "port": True, "probe": {"path": "/healthz", "interval": "1s"},
            "requires": ["python:numpy"], "expect": {"run": "5s"}, "workingDirectory": "src", "tty": False,
        }
    ],
}  # fmt: skip


def told(document: object) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        parse_workload(document, lambda _name, _version: None)
    return caught.value


def places(document: object) -> dict[str, str]:
    return {one.pointer: one.code for one in told(document).faults}


def test_every_wrong_field_is_told_and_the_first_is_the_error_itself() -> None:
    document = workload("Job!", timeLimit="soon", restart="maybe", colour="blue", requests={"gpu": -1})
    del document["spec"]["roles"][0]["command"]
    error = told(document)
    assert (error.code, error.params["path"]) == ("name-invalid", "metadata.name")
    assert places(document) == {
        "/metadata/name": "name-invalid",
        "/spec/roles/0/requests/gpu": "quantity-invalid",
        "/spec/roles/0/command": "field-missing",
        "/spec/timeLimit": "duration-invalid",
        "/spec/restart": "field-invalid",
        "/spec/colour": "field-unknown",
    }
    assert (error.faults[0].code, error.faults[0].params) == (error.code, error.params)


def test_what_only_follows_from_another_fault_is_not_told() -> None:
    assert places(workload(requests=7)) == {"/spec/roles/0/requests": "field-invalid"}
    assert places(workload(roles="none")) == {"/spec/roles": "field-invalid"}
    assert places(workload(kind="dance", replicas={"initial": 2})) == {"/spec/kind": "field-invalid"}
    document = workload()
    document["spec"]["roles"][0]["comand"] = document["spec"]["roles"][0].pop("command")
    assert set(places(document)) == {"/spec/roles/0/command", "/spec/roles/0/comand"}


def test_a_pointer_finds_keys_with_dots_and_slashes() -> None:
    document = {"metadata": {"labels": {"a.b/c": 1}}, "spec": {"roles": [{}, {"env": {"x~y": 2}}]}}
    assert pointer(document, "metadata.labels.a.b/c") == "/metadata/labels/a.b~1c"
    assert pointer(document, "spec.roles[1].env.x~y") == "/spec/roles/1/env/x~0y"
    assert pointer(document, "spec.roles[1].requests.gpu") == "/spec/roles/1/requests/gpu"
    assert pointer(document, "") == ""


def test_no_more_is_told_than_can_be_read() -> None:
    faults = Faults()
    for number in range(MOST + 5):
        faults.add(InvalidError("field-unknown", path=f"spec.a{number}"))
    assert len(faults.error({}).faults) == MOST


def test_a_request_that_is_sent_again_is_told_all_of_it_again() -> None:
    error = told(workload(timeLimit="soon", colour="blue"))
    again = told_again(told_body(error))
    assert isinstance(again, InvalidError)
    assert again.faults == error.faults


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, below in inner for found in paths_of(below, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if not isinstance(value, dict | list):
        return value
    inner = dict(enumerate(value)) if isinstance(value, list) else dict(value)
    if path[0] in inner:
        inner[path[0]] = replaced(inner[path[0]], path[1:], new)
    return list(inner.values()) if isinstance(value, list) else inner


def test_everything_wrong_in_a_list_of_declared_documents_is_told_by_document() -> None:
    limits = [{"class": "gpu", "nominal": "many"}, {"class": "tpu", "nominal": 1}]
    documents = [
        {"kind": "Team", "metadata": {"name": "a"}, "spec": {}},
        {"kind": "Queue", "metadata": {"name": "B!"}, "spec": {"limits": limits, "colour": "blue"}},
        {"kind": "Tem", "metadata": {"name": "a"}, "spec": {}},
        {"kind": "Team", "metadata": {"name": "a"}, "spec": {}},
    ]
    with pytest.raises(InvalidError) as caught:
        parse_documents(documents)
    assert (caught.value.code, caught.value.params["document"]) == ("name-invalid", 1)
    assert {one.pointer: one.code for one in caught.value.faults} == {
        "/documents/1/metadata/name": "name-invalid",
        "/documents/1/spec/limits/0/nominal": "quantity-invalid",
        "/documents/1/spec/limits/1/class": "field-invalid",
        "/documents/1/spec/colour": "field-unknown",
        "/documents/2": "kind-unknown",
        "/documents/3": "document-doubled",
    }


WRONG = st.sampled_from(
    [None, 7, -1, "", "…", "no such", [], {}, [1], {"k": "v"}, True, "\0", 10**30, ["a", "a"]]
)
DECLARED = [one for one in yaml.safe_load_all(DOCUMENTS) if one]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_however_wrong_a_declared_document_is_it_is_read_to_its_end(data: st.DataObject) -> None:
    before: Any = data.draw(st.sampled_from(DECLARED))
    document = before
    for _ in range(data.draw(st.integers(1, 4))):
        document = replaced(document, data.draw(st.sampled_from(paths_of(before))), data.draw(WRONG))
    found: InvalidError | None = None
    try:
        parse_document(document)
    except InvalidError as error:
        found = error
    assert found is None or found.faults[0].code == found.code


METADATA = {"name": "a", "namespace": "b", "labels": {"x": "y"}}
DOCUMENT = {"kind": "Workload", "metadata": METADATA, "spec": FULL}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(paths_of(DOCUMENT)), WRONG), max_size=6), st.sampled_from(
    ["training", "inference", "experiment", "evaluation", "batch"]
))  # fmt: skip
def test_however_wrong_a_document_is_it_is_read_to_its_end_and_the_first_fault_stays_the_first(
    changes: list[tuple[tuple[Any, ...], Any]], kind: str
) -> None:
    document: Any = replaced(DOCUMENT, ("spec", "kind"), kind)
    for path, new in changes:
        document = replaced(document, path, new)
    error = told(document)
    paths = [one.pointer for one in error.faults]
    assert len(set(paths)) == len(paths) >= 1
    assert error.faults[0].code == error.code
