"""A workload that says how fast it is on each model is moved between those that real runs have verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.locale import LANGUAGES, reason_text
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse
from steelyard.model.units import HOUR
from steelyard.scheduling.run_times import MIN_SAMPLE
from steelyard.services import declared, resource_admissions, verifications, workloads
from steelyard.services.cycles import cycle_list, replay_cycle
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import explained, refusal, request_of
from tests.support.console import Pages
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House
from tests.support.stores import doc

SOURCE = doc("ObservationSource", "gpu-probe", type="probe", measures=["utilisation"], interval="10s",
             blind="while the driver is reloaded")  # fmt: skip
POOL = """
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  flavors: [{name: a100, class: gpu, family: nvidia, model: A100},
    {name: v100, class: gpu, family: nvidia, model: V100}, {name: sim-cpu, class: cpu},
    {name: sim-memory, class: memory}]
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {models: Advantage}
"""
TEMPLATE = """
kind: Template
metadata: {name: tune}
spec: {version: "1", spec: {kind: training}}
"""
BOTH = {"A100": 100, "V100": "40"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Four A100 and four V100, as if they were real."""
    yield from of_two_models(tmp_path, Found(detected=True))


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[House]:
    """The same, marked as simulated."""
    yield from of_two_models(tmp_path, Found())


def of_two_models(folder: Path, found: Found) -> Iterator[House]:
    """A house closed in the end."""
    found.models = {f"n-1/gpu-{number}": "V100" for number in range(4)}
    made = House(sqlite_url(folder), folder, wrap=lambda engine: FoundEngine(engine, found))
    made.apply(POOL)
    declared.apply(made.store, ADMIN, [parse_document(SOURCE)])
    made.tick(3)
    yield made
    made.close()


def asked(name: str, throughput: Any = BOTH, **role: Any) -> dict[str, Any]:
    document = request_of(name, **role)
    document["spec"]["throughput"] = throughput
    return document


def submit(house: House, document: dict[str, Any]) -> str:
    return str(workloads.submit(house.desk, ADMIN, document)["id"])


def node_of(house: House, workload: str) -> str:
    return str(house.show(workload)["attempts"][-1]["members"][0]["node"])


def verify(house: House, model: str, **role: Any) -> str:
    """A real run on the model, with its record."""
    run = submit(house, request_of(f"proof-{model.lower()}", models=[model], **role))
    house.run_dry()
    admission = resource_admissions.start(house.store, ADMIN, "gpu", "nvidia", model, "new cards")["id"]
    for step, detail in (
        ("labels", {"labels": ["framework"]}),
        ("environment", {"environment": {"framework": "jax"}}),
        ("monitoring", {"source": "gpu-probe"}),
        ("owner", {"owner": "platform", "on_call": "gpu duty"}),
        ("verification", {"workload": run}),
    ):
        resource_admissions.take_step(house.store, ADMIN, admission, step, detail)
    house.tick(2)
    return next(row["id"] for row in verifications.list_all(house.store, ADMIN) if row["model"] == model)


@pytest.mark.requirement("C10", "C11", "C12")
def test_every_model_that_is_named_must_be_verified_by_a_real_run_of_the_same_software(house: House) -> None:
    told = refusal(house, asked("job"))
    assert [(each["code"], each["model"]) for each in told] == [
        ("model-unverified", "A100"), ("model-unverified", "V100"),
    ]  # fmt: skip
    verify(house, "A100")
    (told_one,) = refusal(house, asked("job"))
    assert (told_one["model"], told_one["known"]) == ("V100", "A100")
    for lang in LANGUAGES:
        assert "V100" in reason_text({"code": "model-unverified", "params": told_one}, lang)
    verify(house, "V100")
    other = asked("job", image="registry.example/train:1")
    assert [each["model"] for each in refusal(house, other)] == ["A100", "V100"]
    assert refusal(house, {**asked("job"), "spec": {**asked("job")["spec"], "kind": "evaluation"}})
    assert house.show(submit(house, asked("job")))["phase"] == "queued"


@pytest.mark.requirement("C10")
def test_a_record_that_ends_takes_its_model_out_of_what_waits(house: House) -> None:
    verify(house, "A100")
    record = verify(house, "V100")
    for number in range(4):
        submit(house, request_of(f"a-{number}", models=["A100"], expect={"run": "forever"}))
    runs = [submit(house, request_of(f"v-{number}", models=["V100"])) for number in range(4)]
    house.tick(3)
    waits = submit(house, asked("waits"))
    verifications.end(house.store, ADMIN, record, "driver replaced")
    house.run_until(lambda: all(house.phase(run) == "finished" for run in runs))
    house.tick(3)
    assert house.show(waits)["phase"] == "queued"  # though V100 are free
    assert [each["code"] for each in explained(house, waits)] == ["waiting-for-capacity"]
    assert refusal(house, asked("too-late"))
    options = models_of(house, waits)["options"]
    assert [(each["model"], each["flavor"]) for each in options] == [("A100", "a100"), ("V100", None)]
    assert_replays(house)


@pytest.mark.requirement("C12")
def test_what_is_simulated_needs_no_record_and_a_model_that_is_nowhere_is_refused(simulated: House) -> None:
    (told,) = refusal(simulated, asked("job", {**BOTH, "H100": 300}))
    assert (told["model"], told["known"]) == ("H100", "A100, V100")
    assert simulated.show(submit(simulated, asked("job")))["phase"] == "queued"


def test_it_starts_where_it_gains_most(simulated: House) -> None:
    for number in range(3):
        submit(simulated, request_of(f"full-{number}", models=["A100"], expect={"run": "forever"}))
    simulated.tick(3)
    indifferent = submit(simulated, asked("indifferent", {"A100": 100, "V100": 90}))
    picky = submit(simulated, asked("picky", {"A100": 100, "V100": 10}))
    simulated.tick(3)
    assert (node_of(simulated, indifferent), node_of(simulated, picky)) == ("n-1", "n-0")


@pytest.mark.parametrize(
    ("throughput", "path"),
    [
        ({"A100": 1}, "spec.throughput"),
        ({"A100": 1, "V100": 0}, "spec.throughput.V100"),
        ({"A100": 1, "V100": "fast"}, "spec.throughput.V100"),
        ({"A100": 1, "V100": 0.00001}, "spec.throughput.V100"),
        ({"A100": 1, "V100": float("nan")}, "spec.throughput.V100"),
        ({"A100": 1, "a\n": 1}, "spec.throughput.a?"),
        ([1], "spec.throughput"),
    ],
)
def test_what_is_no_throughput_is_refused_with_its_path(simulated: House, throughput: Any, path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        workloads.submit(simulated.desk, ADMIN, asked("job", throughput))
    assert caught.value.params["path"] == path


def test_it_belongs_to_accelerators_only(simulated: House) -> None:
    document = asked("job", requests={"cpu": 1, "memory": "1Gi"})
    with pytest.raises(InvalidError) as caught:
        workloads.submit(simulated.desk, ADMIN, document)
    assert caught.value.params["path"] == "spec.throughput"


def test_explain_tells_which_model_it_took_or_waits_for_with_numbers(simulated: House) -> None:
    for number in range(3):
        submit(simulated, request_of(f"full-{number}", models=["A100"], expect={"run": "forever"}))
    simulated.tick(3)
    goes_on = {"expect": {"run": "forever"}}
    indifferent = submit(simulated, asked("indifferent", {"A100": 100, "V100": 90}, **goes_on))
    submit(simulated, asked("picky", {"A100": 100, "V100": 10}, **goes_on))
    simulated.tick(3)
    found = models_of(simulated, indifferent)
    assert (found["basis"], found["taken"], found["assigned"]) == ("declared", "V100", True)
    assert found["options"] == [
        {"model": "A100", "flavor": "a100", "speed": 1000, "runs": None, "room": 1, "given": 1},
        {"model": "V100", "flavor": "v100", "speed": 900, "runs": None, "room": 4, "given": 1},
    ]
    for number in range(3):
        submit(simulated, request_of(f"rest-{number}", models=["V100"], expect={"run": "forever"}))
    simulated.tick(3)
    found = models_of(simulated, submit(simulated, asked("waits")))
    assert (found["taken"], [each["room"] for each in found["options"]]) == (None, [0, 0])
    page = Pages(simulated).as_("root").get(f"/workloads/{indifferent}/explanation").text
    assert "It took model V100" in page
    assert "0.900" in page
    assert models_of(simulated, submit(simulated, request_of("says-nothing"))) is None
    assert_replays(simulated)


def test_speeds_are_learned_from_finished_runs_of_a_template(simulated: House) -> None:
    simulated.apply(TEMPLATE)
    for number in range(MIN_SAMPLE):
        for model, seconds in (("A100", "4s"), ("V100", "8s")):
            document = request_of(f"run-{model.lower()}-{number}", models=[model], expect={"run": seconds})
            document["spec"]["template"] = "tune"
            submit(simulated, document)
        simulated.run_dry()
    simulated.clock.advance(HOUR)
    simulated.tick(2)
    again = request_of("again", expect={"run": "forever"})
    again["spec"]["template"] = "tune"
    workload = submit(simulated, again)
    simulated.tick(3)
    found = models_of(simulated, workload)
    assert (found["basis"], found["taken"]) == ("learned", "A100")
    fast, slow = found["options"]
    assert (fast["model"], fast["speed"], fast["runs"]) == ("A100", 1000, MIN_SAMPLE)
    assert (slow["model"], slow["runs"]) == ("V100", MIN_SAMPLE)
    assert 450 <= slow["speed"] <= 550
    assert_replays(simulated)


def models_of(house: House, workload: str) -> Any:
    return workloads.explain_workload(house.desk, ADMIN, parse("workload", workload))["models"]


def assert_replays(house: House) -> None:
    """Every stored cycle is decided again as it was."""
    cycles, _ = cycle_list(house.store, ADMIN, None, 50)
    assert cycles
    for each in cycles:
        again = replay_cycle(house.store, ADMIN, house.desk.snapshots, parse("cycle", each["id"]))
        assert again["same"] is True, again["differences"][:2]


def test_what_no_assignment_chose_tells_its_speeds_all_the_same(simulated: House) -> None:
    simulated.apply("kind: SchedulingPolicy\nmetadata: {name: default}\nspec: {models: AsListed}\n")
    runs = submit(simulated, asked("runs", {"A100": 100, "V100": 90}, expect={"run": "forever"}))
    simulated.tick(3)
    found = models_of(simulated, runs)
    assert (found["basis"], found["taken"], found["assigned"]) == ("declared", "A100", None)
    assert found["options"] == [
        {"model": "A100", "flavor": "a100", "speed": 1000, "runs": None, "room": None, "given": None},
        {"model": "V100", "flavor": "v100", "speed": 900, "runs": None, "room": None, "given": None},
    ]
    page = Pages(simulated).as_("root").get(f"/workloads/{runs}/explanation").text
    assert "no assignment chose that" in page
    assert models_of(simulated, submit(simulated, request_of("says-nothing"))) is None
    assert_replays(simulated)


def test_who_started_on_a_place_that_was_kept_tells_its_speeds(simulated: House) -> None:
    simulated.apply("kind: Queue\nmetadata: {name: main}\nspec: {cohort: all, owner: platform, limits: []}\n")
    for number in range(8):
        submit(simulated, request_of(f"low-{number}", models=["A100", "V100"][number % 2:][:1],
                                     expect={"run": "forever"}))  # fmt: skip
    simulated.tick(3)
    high = asked("high", {"A100": 100, "V100": 90}, expect={"run": "forever"})
    high["spec"]["priorityClass"] = "high"
    workload = submit(simulated, high)
    simulated.run_until(lambda: simulated.phase(workload) == "reserved")
    assert models_of(simulated, workload)["taken"] is not None
    simulated.run_until(lambda: simulated.phase(workload) == "running")
    assert models_of(simulated, workload)["assigned"] is None
    assert_replays(simulated)
