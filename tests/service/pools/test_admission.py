"""A request that fits no pool it may use is refused with the failing condition, never left waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.model.errors import InvalidError, RefusedError
from steelyard.model.ids import render
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.resources import DeviceClass
from steelyard.services import declared, pools, workloads
from steelyard.services.documents import parse_document, stored_document
from steelyard.services.kinds import Kind
from tests.service.pools.conftest import RULES, explained, refusal, request_of
from tests.support.house import ADMIN, House
from tests.support.stores import doc


@pytest.mark.requirement("C7", "B14", "B26")
@pytest.mark.parametrize(
    ("changes", "code", "label", "wanted", "found"),
    [
        ({"kind": "batch"}, "pool-not-admitting", "kind", "training, evaluation", "batch"),
        ({"namespace": "translate-dev"}, "pool-not-admitting", "project", "detect", "translate"),
        ({"needs": {"framework": "mindspore"}}, "label-mismatch", "framework", "mindspore", "pytorch, jax"),
        ({"needs": {"cann": "8.0"}}, "label-mismatch", "cann", "8.0", None),
        ({"nodeLabels": {"zone": "z"}}, "label-mismatch", "zone", "z", None),
    ],
)
def test_what_does_not_fit_is_refused_with_pool_label_wanted_and_found(
    shared: House, changes: dict[str, Any], code: str, label: str, wanted: str, found: str | None
) -> None:
    (reason,) = refusal(shared, request_of(**changes))
    expected = {"code": code, "pool": "accelerators", "label": label, "wanted": wanted, "found": found}
    assert reason == expected | ({"per": "node"} if label == "zone" else {})


def test_more_than_the_pool_gives_one_request_is_refused(shared: House) -> None:
    (reason,) = refusal(shared, request_of(count=5))
    assert (reason["code"], reason["per"]) == ("pool-not-admitting", "most")


@pytest.mark.requirement("C5", "B26")
def test_what_fits_the_rules_and_the_environment_runs(house: House) -> None:
    first = submit(house, request_of("x"))
    second = submit(house, request_of("y", needs={"framework": "jax", "cuda": "12.4"}))
    third = house.submit("z", requests={"cpu": "1", "memory": "1Gi"}, kind="batch")  # any pool of cores
    house.run_dry()
    assert [house.show(one)["outcome"] for one in (first, second, third)] == ["succeeded"] * 3


def submit(house: House, document: dict[str, Any]) -> str:
    return str(workloads.submit(house.desk, ADMIN, document)["id"])


@pytest.mark.requirement("B3", "B15")
def test_each_class_of_a_pool_has_its_environment_and_who_runs_it() -> None:
    spec = parse_document(yaml.safe_load(RULES)).spec
    assert spec.operated_by(DeviceClass.GPU) == ("platform", "gpu duty")  # type: ignore[union-attr]
    assert spec.operated_by(DeviceClass.CPU) == ("systems", "gpu duty")  # type: ignore[union-attr]


def test_a_purpose_is_of_the_closed_list_and_one_in_free_words_is_still_read_from_the_store() -> None:
    raw = doc("Pool", "p", cluster="here", purpose="real CPU of this machine", flavors=[])
    with pytest.raises(InvalidError) as caught:
        parse_document(raw)
    assert caught.value.params["path"] == "spec.purpose"
    assert "production-inference" in str(caught.value.params["expected"])
    old = stored_document("Pool", "p", {}, raw["spec"])
    assert (old.spec.purpose, old.spec.about) == ("general", "real CPU of this machine")  # type: ignore[union-attr]
    again = parse_document({"kind": "Pool", "metadata": {"name": "p"}, "spec": old.body})
    assert again.digest == old.digest  # what is exported changes nothing when it is applied


@pytest.mark.parametrize(
    "spec",
    [
        {"admission": {"kinds": ["teaching"]}},
        {"admission": {"kinds": [["training"]]}},
        {"admission": {"maxPerRequest": {"tpu": 1}}},
        {"fit": [{"class": "npu"}]},
        {"fit": [{"class": "npu", "needs": {"framework": []}}]},
        {"environment": {"framework": [""]}},
        {"environment": {"bad key": "x"}},
        {"operations": [{"owner": "x"}]},
        {"lending": {"to": ["Not A Name"]}},
        {"members": {"nodes": ["a", "a"]}},
    ],
)
def test_a_pool_is_read_strictly(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        parse_document(doc("Pool", "p", cluster="here", **spec))


def test_a_pool_names_only_projects_teams_and_pools_that_there_are(shared: House) -> None:
    base = yaml.safe_load(RULES)
    for change in ({"admission": {"projects": ["none"]}}, {"admission": {"teams": ["none"]}},
                   {"lending": {"to": ["none"]}}):  # fmt: skip
        with pytest.raises(InvalidError) as caught:
            declared.apply(
                shared.store, ADMIN, [parse_document({**base, "spec": {**base["spec"], **change}})]
            )
        assert caught.value.code == "reference-missing"


def test_the_whole_form_of_a_pool_reads_as_the_same_pool() -> None:
    raw = yaml.safe_load((Path(__file__).parent / "whole_pool.yaml").read_text(encoding="utf-8"))
    once = parse_document(raw)
    assert once.body == raw["spec"]
    again = stored_document(Kind.POOL, once.name, {}, once.body)
    assert (again, again.digest) == (once, once.digest)


@pytest.mark.requirement("C7")
def test_what_waits_when_rules_are_tightened_says_which_condition_it_fails(house: House) -> None:
    house.submit("holder", count=4, expect={"run": "1h"}, requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    house.submit("holder-2", count=4, expect={"run": "1h"}, requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    waits = house.submit("waits", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    house.tick(5)
    house.apply(RULES.replace("[training, evaluation]", "[evaluation]"))
    house.tick(5)
    assert house.phase(waits) == "queued"
    assert {"code": "pool-not-admitting", "pool": "accelerators", "label": "kind", "wanted": "evaluation",
            "found": "training"} in explained(house, waits)  # fmt: skip
    house.apply(RULES)
    house.tick(5)
    assert explained(house, waits)[0]["code"] in ("waiting-for-capacity", "waiting-for-quota")
    for one in list(house.live):
        house.cancel(render("workload", one))
    house.run_dry()


@pytest.mark.requirement("J12", "I5")
def test_whom_else_a_pool_lets_in_is_shown_to_nobody_of_another_project(house: House) -> None:
    house.apply(RULES.replace("projects: [detect]", "projects: [detect], teams: [vision]"))
    house.tick(2)
    bob = Principal("us_0000000000003", "user", "bob", (Binding("bob", RoleName.MEMBER, "translate", 1),))
    with pytest.raises(RefusedError) as caught:
        workloads.submit(house.desk, bob, request_of(namespace="translate-dev"))
    assert {(r.params["label"], r.params["wanted"]) for r in caught.value.reasons} == {
        ("project", None), ("team", None),
    }  # fmt: skip
    assert pools.show(house.store, bob, "accelerators")["admission"]["projects"] == ["…"]
    for read in (declared.get_object, declared.history):
        assert "detect" not in str(read(house.store, bob, "Pool", "accelerators"))
    assert "detect" not in str(declared.export(house.store, bob))
    assert pools.show(house.store, ADMIN, "accelerators")["admission"]["projects"] == ["detect"]
