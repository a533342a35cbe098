"""Usage over time: its sums are those of the report, whatever the spans, and fill the capacity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from steelyard.model.errors import ForbiddenError, InvalidError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import usage
from steelyard.services.usage_series import ClassSeries, UsageSeries, usage_series
from steelyard.store.database import sqlite_url
from tests.support import postgresql
from tests.support.house import ADMIN, START, House

ANN = Principal("us_0000000000001", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
NOBODY = Principal("us_0000000000002", "user", "nob", ())
GPU = {"cpu": "1", "memory": "4Gi", "gpu": 1}


def fill(house: House) -> None:
    """Some ended, some run, some wait."""
    for turn in range(5):
        for namespace in ("detect-dev", "translate-dev"):
            house.submit(
                f"w{turn}-{namespace[:2]}", namespace=namespace, requests=GPU, expect={"run": f"{turn}10ms"}
            )
        house.tick(17, step=20_000)
    house.submit("forever", requests={**GPU, "gpu": 4}, expect={"run": "forever"})
    house.submit("waits", requests={**GPU, "gpu": 4}, count=2)
    house.tick(40, step=20_000)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder: Path = tmp_path_factory.mktemp("series")
    with ExitStack() as stack:
        url = sqlite_url(folder)
        if request.param == "postgresql":
            server = request.getfixturevalue("postgresql_server")
            url = stack.enter_context(postgresql.fresh_database(server))
        made = House(url, folder)
        stack.callback(made.close)
        fill(made)
        yield made


def sums(found: UsageSeries) -> dict[tuple[str, bool, str, str | None], int]:
    """(class, simulated, kind, key) → quantity × µs over the window."""
    told = {}
    for each in found.classes:
        of = (each.device_class, each.simulated)
        told[*of, "capacity", None] = sum(each.capacity)
        told.update({(*of, "held", key): sum(amounts) for key, amounts in each.held.items()})
        told.update({(*of, "unheld", key): sum(amounts) for key, amounts in each.unheld.items()})
    return {key: amount for key, amount in told.items() if amount}


def reported(
    house: House, who: Principal, start: int, end: int
) -> dict[tuple[str, bool, str, str | None], int]:
    """The same by the report."""
    told = {}
    report = usage.report(house.store, who, start, end, ("class", "project"))
    for row in report["capacity"]:
        told[row["class"], row["simulated"], "capacity", None] = int(row["capacity_time"])
    for row in report["rows"]:
        told[row["class"], row["simulated"], "held", row["project"]] = int(row["held"])
    for row in report["unheld"]:
        told[row["class"], row["simulated"], "unheld", row["state"]] = int(row["quantity_time"])
    return told


def gpus(found: UsageSeries) -> ClassSeries:
    return next(each for each in found.classes if each.device_class == "gpu")


@pytest.mark.requirement("L23")
@pytest.mark.parametrize("spans", [1, 2, 7, 72, 1000])
@pytest.mark.parametrize("cut", [(0, 0), (130_000, 0), (0, 90_000), (777_001, 133_337)])
def test_the_sums_over_all_spans_are_those_of_the_report(
    house: House, spans: int, cut: tuple[int, int]
) -> None:
    start, end = START + 2_000 + cut[0], house.clock.at - cut[1]
    found = usage_series(house.store, ADMIN, start, end, "project", spans)
    assert found.closes
    assert sums(found) == reported(house, ADMIN, *found.window)


@pytest.mark.requirement("L23")
@pytest.mark.parametrize("spans", [3, 72])
def test_in_every_span_what_is_told_apart_is_the_capacity_exactly(house: House, spans: int) -> None:
    found = usage_series(house.store, ADMIN, START, house.clock.at, "kind", spans)
    assert gpus(found).held
    assert [each.others for each in found.classes] == [(0,) * (len(found.marks) - 1)] * len(found.classes)


def test_spans_tile_the_window_from_the_first_device_on(house: House) -> None:
    found = usage_series(house.store, ADMIN, 0, house.clock.at, "project")
    assert found.since == found.window[0] == found.marks[0] > START
    assert found.marks[-1] == found.window[1]
    assert all(a < b for a, b in zip(found.marks, found.marks[1:], strict=False))


def test_who_sees_one_project_is_told_its_use_and_of_others_the_sum_alone(house: House) -> None:
    of_all = usage_series(house.store, ADMIN, START, house.clock.at, "project")
    of_ann = usage_series(house.store, ANN, START, of_all.window[1], "project")
    assert set(gpus(of_ann).held) == {"detect"}
    assert gpus(of_ann).held["detect"] == gpus(of_all).held["detect"]
    assert gpus(of_ann).others == gpus(of_all).held["translate"]
    assert not of_ann.whole
    assert {row["project"] for row in of_ann.waits} == {"detect"}


def test_who_is_bound_nowhere_is_told_nothing(house: House) -> None:
    with pytest.raises(ForbiddenError):
        usage_series(house.store, NOBODY, None, None, "project")


@pytest.mark.parametrize(
    ("start", "end", "by"), [(5, 5, "project"), (9, 4, "kind"), (None, None, "nonsense")]
)
def test_an_empty_window_and_an_unknown_dimension_are_refused(
    house: House, start: int | None, end: int | None, by: str
) -> None:
    with pytest.raises(InvalidError):
        usage_series(house.store, ADMIN, start, end, by)
