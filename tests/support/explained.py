"""A house whose accelerators are in use, and what its readers are told of a workload that waits."""

from __future__ import annotations

from typing import Any

from steelyard.model.ids import parse
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import workloads
from tests.support.house import ADMIN, House

MEMBER = Principal("us_0000000000001", "user", "mia", (Binding("mia", RoleName.MEMBER, "detect", 1),))
LONG = {"run": "600s"}


def asks(gpu: int) -> dict[str, Any]:
    """Requests of one member."""
    return {"gpu": gpu, "cpu": "1", "memory": "1Gi"}


def fill(house: House, mine: int = 4, theirs: int = 2) -> tuple[str, str]:
    """(a workload of the member's project, one of another project) that run, with so many devices."""
    first = house.submit("mine", requests=asks(mine), expect=LONG, preemptible=False)
    other = house.submit(
        "zz-secret", namespace="translate-dev", requests=asks(theirs), expect=LONG, preemptible=False
    )
    house.run_until(lambda: {house.phase(first), house.phase(other)} == {"running"})
    return first, other


def told(house: House, workload_id: str, who: Principal = ADMIN) -> dict[str, Any]:
    """The explanation as a reader gets it."""
    return workloads.explain_workload(house.desk, who, parse("workload", workload_id))


def compared(house: House, one: str, other: str, who: Principal = ADMIN) -> dict[str, Any]:
    """Which of two comes first."""
    ids = (parse("workload", one), parse("workload", other))
    return workloads.compare_workloads(house.desk, who, *ids)
