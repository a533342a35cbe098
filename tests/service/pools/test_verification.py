"""A new type of resource comes in step by step; only a real run verifies, and only for its time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.locale import LANGUAGES, text, word
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import DAY, HOUR
from steelyard.services import declared, pools, register, resource_admissions, verifications, workloads
from steelyard.services.device_page import show_device
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import RULES, refusal, request_of
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House
from tests.support.stores import doc

VIEWER = Principal("us_0000000000001", "user", "vic", (Binding("vic", RoleName.VIEWER, "detect", 1),))
SOURCE = doc("ObservationSource", "gpu-probe", type="probe", measures=["utilisation"], interval="10s",
             blind="while the driver is reloaded")  # fmt: skip
LENDER = """
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  environment: {framework: jax}
  admission: {kinds: [inference]}
  lending: {to: [cores]}
  flavors: [{name: a100, class: gpu, family: nvidia, model: A100}, {name: sim-cpu, class: cpu},
    {name: sim-memory, class: memory}]
"""


@pytest.fixture
def found() -> Found:
    """The devices are as if they were real."""
    return Found(detected=True)


@pytest.fixture
def house(tmp_path: Path, found: Found) -> Iterator[House]:
    """A control plane whose devices are not marked as simulated."""
    made = House(sqlite_url(tmp_path), tmp_path, wrap=lambda engine: FoundEngine(engine, found))
    made.apply(RULES)
    declared.apply(made.store, ADMIN, [parse_document(SOURCE)])
    made.tick(3)
    yield made
    made.close()


def start(house: House, model: str = "A100", device_class: str = "gpu") -> str:
    made = resource_admissions.start(house.store, ADMIN, device_class, "nvidia", model, "new cards")
    return str(made["id"])


def step(house: House, admission: str, name: str, **detail: Any) -> dict[str, Any]:
    return resource_admissions.take_step(house.store, ADMIN, admission, name, detail)


def ran(house: House, name: str = "run", **spec: Any) -> str:
    """A workload that ended well."""
    workload = house.submit(name, **spec)
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"
    return workload


def all_but_the_last(house: House) -> str:
    """An admission with every step taken but the verifying workload."""
    admission = start(house)
    step(house, admission, "labels", labels=["framework", "cuda"])
    step(house, admission, "environment", environment={"framework": "jax", "cuda": ["12.4"]})
    step(house, admission, "monitoring", source="gpu-probe")
    step(house, admission, "owner", owner="platform", on_call="gpu duty")
    return admission


@pytest.mark.requirement("C8", "B12", "C6")
def test_a_type_is_pending_until_every_step_is_done_and_a_real_run_verified_it(house: House) -> None:
    admission = all_but_the_last(house)
    page = resource_admissions.show(house.store, VIEWER, admission)
    assert (page["state"], page["standing"]) == ("open", "pending-verification")
    assert [entry["done"] for entry in page["steps"]] == [True] * 4 + [False]
    with pytest.raises(ConflictError) as caught:
        resource_admissions.finish(house.store, ADMIN, admission)
    assert caught.value.params["steps"] == "verification"
    workload = ran(house)
    page = step(house, admission, "verification", workload=workload, valid_for="30d")
    assert page["standing"] == "pending-verification"  # not finished yet
    page = resource_admissions.finish(house.store, ADMIN, admission)
    assert (page["state"], page["standing"]) == ("admitted", "verified")
    (record,) = verifications.list_all(house.store, VIEWER, standing=True)
    assert (record["kind"], record["class"], record["family"], record["model"], record["pool"]) == (
        "training", "gpu", "nvidia", "A100", "accelerators",
    )  # fmt: skip
    assert record["environment"] == {"framework": ["pytorch", "jax"], "cuda": "12.4"}
    assert (record["workload"], record["admission"]) == (workload, admission)
    assert record["expires_at"] - record["issued_at"] == 30 * DAY
    assert verifications.show(house.store, VIEWER, record["id"]) == record


@pytest.mark.requirement("C11")
def test_a_record_holds_model_image_runtime_and_result(house: House) -> None:
    step(house, all_but_the_last(house), "verification", workload=ran(house))
    (record,) = verifications.list_all(house.store, ADMIN)
    assert record["software"] == {
        "roles": {"main": {"runtime": "host", "image": None, "venv": None, "needs": {}}}, "template": None,
        "result": "succeeded",
    }  # fmt: skip
    assert record["leaf"] > 0


@pytest.mark.requirement("O14", "O3")
def test_a_simulated_run_never_verifies_hardware(tmp_path: Path) -> None:
    made = House(sqlite_url(tmp_path), tmp_path)
    try:
        admission = start(made)
        with pytest.raises(ConflictError) as caught:
            step(made, admission, "verification", workload=ran(made))
        assert caught.value.code == "verification-simulated"
        assert verifications.list_all(made.store, ADMIN) == []
        assert pools.show(made.store, ADMIN, "accelerators")["standing"] == "pending-verification"
    finally:
        made.close()


@pytest.mark.requirement("C8")
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expect": {"run": "1ms", "exit": "3"}, "restart": "never"}, "verification-not-succeeded"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, "verification-other-model"),
    ],
)
def test_what_failed_or_ran_elsewhere_verifies_nothing(house: House, spec: dict[str, Any], code: str) -> None:
    admission = start(house)
    workload = house.submit("run", **spec)
    with pytest.raises(ConflictError) as caught:
        step(house, admission, "verification", workload=workload)  # not over yet
    assert caught.value.code == "verification-not-succeeded"
    house.run_dry()
    with pytest.raises(ConflictError) as caught:
        step(house, admission, "verification", workload=workload)
    assert caught.value.code == code


@pytest.mark.requirement("C8")
@pytest.mark.parametrize(
    ("name", "detail", "code"),
    [
        ("labels", {"labels": ["colour"]}, "label-unknown"),
        ("labels", {}, "field-missing"),
        ("environment", {"environment": {"colour": "red"}}, "label-unknown"),
        ("monitoring", {"source": "nobody"}, "observation-source-unknown"),
        ("owner", {"owner": "x"}, "field-missing"),
        ("owner", {"owner": "x", "on_call": "y", "more": 1}, "field-unknown"),
        ("verification", {"workload": "nonsense"}, "id-invalid"),
        ("blessing", {}, "field-invalid"),
    ],
)
def test_a_step_is_held_against_what_there_is(
    shared: House, name: str, detail: dict[str, Any], code: str
) -> None:
    known = resource_admissions.list_all(shared.store, ADMIN)
    with pytest.raises(InvalidError) as caught:
        step(shared, known[0]["id"] if known else start(shared), name, **detail)
    assert caught.value.code == code


def test_only_who_manages_admits_and_a_type_has_one_admission(house: House) -> None:
    admission = start(house)
    with pytest.raises(ForbiddenError):
        resource_admissions.take_step(house.store, VIEWER, admission, "owner", {"owner": "x", "on_call": "y"})
    with pytest.raises(ConflictError):
        start(house)
    assert [one["id"] for one in resource_admissions.list_all(house.store, VIEWER)] == [admission]


@pytest.mark.requirement("O1", "O15")
def test_when_a_record_ends_what_rested_on_it_is_pending_again(house: House) -> None:
    admission = all_but_the_last(house)
    step(house, admission, "verification", workload=ran(house), valid_for="2h")
    resource_admissions.finish(house.store, ADMIN, admission)
    house.apply(RULES.replace("[training, evaluation]", "[training]"))
    house.tick(2)
    page = pools.show(house.store, ADMIN, "accelerators")
    assert (page["standing"], page["flavors"][0]["verified_kinds"]) == ("verified", ["training"])
    house.apply(RULES)  # it lets in evaluations, too, and of these nothing is shown
    house.tick(2)
    assert pools.show(house.store, ADMIN, "accelerators")["standing"] == "pending-verification"
    house.clock.advance(3 * HOUR)
    house.tick(3)
    (record,) = verifications.list_all(house.store, ADMIN)
    assert (record["standing"], record["ended_by"], record["end_reason"]) == (
        "pending-verification", "control", "expired",
    )  # fmt: skip
    assert resource_admissions.show(house.store, ADMIN, admission)["standing"] == "pending-verification"
    flavors = pools.show(house.store, ADMIN, "accelerators")["flavors"]
    assert {part["standing"] for part in flavors} == {"pending-verification"}


@pytest.mark.requirement("C10")
def test_a_pool_lends_only_after_a_real_run_of_that_kind_and_no_longer_than_its_record(house: House) -> None:
    workload = ran(house, "proof")
    house.apply(LENDER)
    house.tick(2)
    (reason,) = refusal(house, request_of("borrower"))
    assert (reason["code"], reason["model"]) == ("lending-unverified", "A100")
    house.apply(RULES)  # the proof ran in this environment …
    house.tick(2)
    step(house, all_but_the_last(house), "verification", workload=workload)
    house.apply(LENDER)  # … and this is another
    house.tick(2)
    (reason,) = refusal(house, request_of("borrower"))
    assert reason["code"] == "lending-unverified"
    same = LENDER.replace("{framework: jax}", '{framework: [pytorch, jax], cuda: "12.4"}')
    house.apply(same)
    house.tick(2)
    assert ran(house, "borrower", kind="training")
    (record,) = verifications.list_all(house.store, ADMIN)
    verifications.end(house.store, ADMIN, record["id"], "driver replaced")
    house.tick(2)
    (reason,) = refusal(house, request_of("borrower-2"))
    assert reason["code"] == "lending-unverified"


@pytest.mark.requirement("O3", "O13", "B12", "B22", "B21")
def test_documents_extensions_and_sources_stand_in_the_inventory_and_verify_nothing(house: House) -> None:
    before = pools.show(house.store, ADMIN, "accelerators")["standing"]
    raw = [
        doc("SupportDocument", "matrix", issuer="a vendor", date="2026-05", link="https://vendor.example/m",
            scope={"class": "gpu", "family": "nvidia", "models": ["A100"],
                   "environment": {"driver": "550", "cuda": ["12.4"]}}),
        doc("Extension", "plugin", type="device-plugin", version="0.17", family="nvidia", cluster="sim"),
    ]
    house_of = [parse_document(one) for one in raw]
    declared.apply(house.store, ADMIN, house_of)
    kinds = {item.kind for item in declared.list_objects(house.store, VIEWER)}
    assert {"SupportDocument", "Extension", "ObservationSource"} <= kinds
    document = declared.get_object(house.store, ADMIN, "SupportDocument", "matrix")
    assert document.spec["linkCheck"] == {"state": "unchecked"}  # nobody looked, and the server does not
    assert verifications.list_all(house.store, ADMIN) == []
    assert pools.show(house.store, ADMIN, "accelerators")["standing"] == before == "pending-verification"
    support = show_device(house.store, VIEWER, "n-0/gpu-0")["support"]
    assert (support["standing"], support["verifications"]) == ("pending-verification", [])
    assert [row["name"] for row in support["documents"]] == ["matrix"]
    assert [row["name"] for row in support["extensions"]] == ["plugin"]
    assert {row["proves"] for part in ("documents", "extensions", "sources") for row in support[part]} == {
        "nothing"
    }


@pytest.mark.requirement("C6", "O3", "B12")
def test_each_part_of_an_environment_says_what_confirms_it_and_supported_needs_run_and_document(
    house: House,
) -> None:
    def told() -> dict[tuple[str, str], tuple[list[str], str]]:
        page = pools.show(house.store, ADMIN, "accelerators")
        return {
            (part["label"], part["value"]): (part["confirmed_by"], part["standing"])
            for part in page["confirmations"]
        }

    def is_supported() -> bool:
        flavors = pools.show(house.store, ADMIN, "accelerators")["flavors"]
        return bool(flavors[0]["supported"])

    assert all(found == ([], "pending-verification") for found in told().values())
    matrix = doc("SupportDocument", "matrix", issuer="a vendor", date="2026-05",
                 scope={"class": "gpu", "family": "nvidia",
                        "environment": {"framework": ["jax"]}})  # fmt: skip
    declared.apply(house.store, ADMIN, [parse_document(matrix)])
    assert told()["framework", "jax"] == (["support-document"], "pending-verification")
    assert not is_supported()
    workload = str(workloads.submit(house.desk, ADMIN, request_of("proof", needs={"framework": "jax"}))["id"])
    house.run_dry()
    step(house, all_but_the_last(house), "verification", workload=workload)
    assert told() == {
        ("framework", "jax"): (["run", "support-document"], "verified"),
        ("framework", "pytorch"): ([], "pending-verification"),  # nothing ran with it
        ("cuda", "12.4"): (["run"], "verified"),
    }
    assert not is_supported()  # evaluations are let in, too, and none ran
    house.apply(RULES.replace("[training, evaluation]", "[training]"))
    assert is_supported()


@pytest.mark.requirement("B3", "B12", "B15")
def test_a_device_says_what_is_verified_of_it_and_who_runs_it(house: House) -> None:
    step(house, all_but_the_last(house), "verification", workload=ran(house))
    support = show_device(house.store, VIEWER, "n-0/gpu-0")["support"]
    assert support["standing"] == "verified"
    assert [(row["kind"], row["standing"]) for row in support["verifications"]] == [("training", "verified")]
    assert support["operations"] == {"owner": "platform", "on_call": "gpu duty"}
    assert support["admission"]["state"] == "open"
    assert support["sources"][0]["name"] == "gpu-probe"
    cpu = show_device(house.store, VIEWER, "n-0/cpu")["support"]
    assert (cpu["standing"], cpu["operations"]["owner"]) == ("pending-verification", "systems")


@pytest.mark.requirement("O2", "B22")
def test_that_nothing_of_it_is_proof_is_said_in_both_languages() -> None:
    assert "None of these proves support" in text("cli.document-list.nothing", None, "en")
    assert "均不构成支持证明" in text("cli.document-list.nothing", None, "zh")
    assert {word("proves", "nothing", lang) for lang in LANGUAGES} == {"nothing", "不构成证明"}


@pytest.mark.parametrize(
    "raw",
    [
        doc("SupportDocument", "m", issuer="x", date="yesterday"),
        doc("SupportDocument", "m", issuer="x", date="2026-13"),
        doc("SupportDocument", "m", issuer="x", date="2026-05", link="file:///etc/passwd"),
        doc("SupportDocument", "m", issuer="x", date="2026-05", linkCheck={"state": "reachable"}),
        doc("Extension", "m", type="magic"),
        doc("ObservationSource", "m", type="probe", interval="1ms"),
        doc("RegisterEntry", "m", kind="training"),
        doc("RegisterEntry", "m", kind="teaching", requests={"gpu": 1}),
    ],
)
def test_what_surrounds_devices_is_read_strictly(raw: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        parse_document(raw)


@pytest.mark.requirement("B4", "B25")
def test_a_family_that_the_model_lacks_is_refused_with_those_that_there_are_until_it_is_admitted(
    house: House,
) -> None:
    new = doc("Pool", "odd", cluster="other", flavors=[{"name": "odd", "class": "npu", "family": "oddity"}])
    with pytest.raises(InvalidError) as caught:
        declared.apply(house.store, ADMIN, [parse_document(new)])
    assert caught.value.code == "pool-family-unknown"
    assert "nvidia" in str(caught.value.params["known"]) or "ascend" in str(caught.value.params["known"])
    resource_admissions.start(house.store, ADMIN, "npu", "oddity", "O1", "on its way")
    declared.apply(house.store, ADMIN, [parse_document(new)])


@pytest.mark.requirement("B4")
@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (doc("Queue", "q", limits=[{"flavor": "h900", "nominal": 1}]), "a100"),
        (doc("Quota", "q", project="detect", limits=[{"flavor": "h900", "hard": 1}]), "a100"),
        (doc("Routing", "default", routes=[{"queue": "none", "priorityClass": "high"}]), "main"),
        (doc("Routing", "default", routes=[{"kind": "teaching", "queue": "main", "priorityClass": "high"}]),
         "training"),
        (doc("Queue", "q", limits=[{"class": "tpu", "nominal": 1}]), "gpu"),
        (doc("Pool", "p", cluster="nowhere"), "sim"),
    ],
)  # fmt: skip
def test_a_policy_that_names_what_the_model_lacks_is_refused_with_the_names_there_are(
    shared: House, raw: dict[str, Any], names: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        declared.apply(shared.store, ADMIN, [parse_document(raw)])
    told = caught.value.params
    assert names in str(told.get("known") or told.get("expected"))


ENTRY = doc("RegisterEntry", "llm", kind="training", requests={"gpu": 2}, needs={"framework": "jax"},
            models=["A100"], owner="ai", period="next quarter", acceptedBy="loss below 2",
            boundaries="no multi-node")  # fmt: skip


@pytest.mark.requirement("C9", "C13", "C14", "C17")
def test_whether_something_can_be_taken_in_is_answered_from_records(house: House) -> None:
    def answer(**changes: Any) -> tuple[str, set[str]]:
        entry = {**ENTRY, "spec": {k: v for k, v in {**ENTRY["spec"], **changes}.items() if v is not None}}
        declared.apply(house.store, ADMIN, [parse_document(entry)])
        found = register.show(house.store, VIEWER, "llm")
        return found["answer"], {reason["code"] for reason in found["reasons"]}

    assert answer() == ("pending", {"register-unverified"})
    assert answer(requests={"npu": 1}) == ("no", {"register-no-class"})
    assert answer(requests={"gpu": 9})[0] == "no"
    assert answer(models=["H100"])[0] == "no"
    assert answer(needs={"framework": "mindspore"}) == ("no", {"label-mismatch"})
    assert answer(kind="batch") == ("no", {"pool-not-admitting"})
    step(house, all_but_the_last(house), "verification", workload=ran(house))
    assert answer() == ("yes", set())
    assert answer(boundaries=None) == ("pending", {"register-no-boundaries"})
    assert answer(kind="evaluation")[0] == "pending"  # another kind has shown nothing
    versions = declared.history(house.store, ADMIN, "RegisterEntry", "llm")
    assert len(versions) == 9
    assert any(one["kind"] == "RegisterEntry" for one in declared.export(house.store, ADMIN))
