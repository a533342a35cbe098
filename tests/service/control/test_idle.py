"""Experiments that use nothing for as long as they may are reclaimed; what is not known is not idle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.control.idle import LONGEST_STEP
from steelyard.engines.port import Sample
from steelyard.model.units import SECOND
from steelyard.store.database import sqlite_url
from tests.support.house import House

STEP = 2 * SECOND
LIMIT = {"after": "10s", "cpu": "100m"}
CPU_ONLY = {"cpu": "1", "memory": "1Gi"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


class Meter:
    """Samples of one experiment, as an engine would measure them: milli-cores in, samples out."""

    def __init__(self, house: House, workload: str) -> None:
        self.house = house
        self.member = house.show(workload)["attempts"][-1]["members"][0]["id"]
        self.used = 0

    def __call__(
        self, cpu: int | None, *, device: int | None = None, step: int = STEP, times: int = 1
    ) -> None:
        for _ in range(times):
            self.house.tick(step=step)
            if cpu is not None:
                self.used += cpu * step // 1000
            known = None if cpu is None else self.used
            assert self.house.loop.desk is not None
            self.house.loop.desk.idleness.take(
                [Sample(self.member, self.house.clock.at, known, 100, device)]
            )
        self.house.tick()


def experiment(house: House, **spec: Any) -> tuple[str, Meter]:
    workload = house.submit(
        "try", kind="experiment", expect={"run": "forever"},
        **{"idleLimit": LIMIT, "requests": CPU_ONLY, **spec},
    )  # fmt: skip
    house.run_until(lambda: house.phase(workload) == "running")
    return workload, Meter(house, workload)


@pytest.mark.requirement("D6")
def test_an_idle_experiment_is_reclaimed_and_its_owner_told_why(house: House) -> None:
    workload, use = experiment(house)
    use(10, times=5)
    assert house.phase(workload) == "running"
    use(10, times=2)
    house.run_dry()
    page = house.show(workload)
    assert page["outcome"] == "reclaimed"
    assert (page["verdict"]["code"], page["verdict"]["rule"]) == ("idle-limit", "policy.idle-limit")
    assert page["use"]["idle_for"] >= 10 * SECOND
    assert page["attempts"][-1]["receipt"]["state"] == "confirmed"


def test_use_begins_the_count_anew(house: House) -> None:
    workload, use = experiment(house)
    for _ in range(4):
        use(10, times=4)
        use(500)
    assert house.phase(workload) == "running"


def test_missing_samples_and_missing_values_are_not_idle(house: House) -> None:
    workload, use = experiment(house)
    use(None, times=20)
    use(10, step=LONGEST_STEP + SECOND, times=5)
    assert house.phase(workload) == "running"
    assert house.loop.desk is not None
    (known,) = house.loop.desk.idleness._uses.values()
    assert (known.idle_for, known.known) == (0, 0)


def test_devices_of_which_nothing_is_known_are_not_idle_and_known_ones_are(house: House) -> None:
    workload, use = experiment(house, requests={**CPU_ONLY, "gpu": 1})
    use(10, times=20)
    assert house.phase(workload) == "running"
    use(10, device=800, times=20)
    assert house.phase(workload) == "running"
    use(10, device=0, times=7)
    house.run_dry()
    assert house.show(workload)["outcome"] == "reclaimed"


def test_what_was_counted_survives_a_restart(house: House) -> None:
    workload, use = experiment(house, idleLimit={"after": "20s"})
    use(10, times=8)
    house.restart()
    house.tick(3)
    use(10, times=7)
    assert house.show(workload)["phase"] in ("stopping", "releasing", "finished")


def test_only_experiments_have_an_idle_limit(house: House) -> None:
    with pytest.raises(Exception, match="field-invalid"):
        house.submit("train", idleLimit=LIMIT)
