"""Releases that are not proven, on a virtual clock: kept back, probed again, confirmed, forced, fenced."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.port import Engine, ReleaseProbe
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from steelyard.model.ids import parse
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import MINUTE, SECOND
from steelyard.services import inventory, releases
from steelyard.services.audit import leaves
from steelyard.services.doctor import examine
from steelyard.services.releases import Asked
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House
from tests.support.sticky_engine import Sticky

FOUR = {"gpu": 4, "cpu": "1", "memory": "1Gi"}
MEMBER = Principal("us_0000000000001", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
STRANGER = Principal("us_0000000000002", "user", "bob", (Binding("bob", RoleName.MEMBER, "translate", 1),))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house whose releases must be proven within two seconds; closing it checks its books."""
    text = DOCUMENTS.replace("- {count: 2", "- {count: 1", 1)
    text = text.replace("engine: simulated\n", "engine: simulated\n  releaseWithin: 2s\n", 1)
    made = House(sqlite_url(tmp_path), tmp_path, text, wrap=Sticky)
    yield made
    made.close()


def engine(house: House) -> Sticky:
    found = house.engines["sim"]
    assert isinstance(found, Sticky)
    return found


def restart(house: House) -> None:
    """The loop dies and another one starts; what is on the cluster stays as it is."""
    before = engine(house)

    def wrap(inner: Engine) -> Engine:
        if inner.cluster != before.cluster:
            return inner
        fresh = Sticky(inner)
        fresh.stuck, fresh.free = before.stuck, before.free
        return fresh

    house.wrap = wrap
    house.restart()


def quarantined(house: House, name: str = "sticky") -> tuple[str, int]:
    """(workload, attempt) of which everything is in quarantine."""
    engine(house).stuck = True
    workload = house.submit(name, requests=FOUR)
    house.run_until(lambda: house.phase(workload) == "finished", step=400_000)
    return workload, parse("attempt", house.show(workload)["attempts"][0]["id"])


def gpu(house: House) -> dict[str, int]:
    row = next(
        row
        for row in inventory.summary_page(house.store, ADMIN)["classes"]
        if (row["cluster"], row["class"]) == ("sim", "gpu")
    )
    return {part: row[part] for part in ("held", "free", "unavailable")}


def case(house: House, attempt: int) -> dict[str, Any]:
    return releases.show(house.store, ADMIN, attempt)


def ask(house: House, attempt: int, asked: Asked, reason: str | None = None) -> dict[str, Any]:
    """Asks, and lets the loop answer."""
    releases.ask(house.store, ADMIN, attempt, asked, reason)
    house.run_until(lambda: case(house, attempt)["asked"] is None, step=400_000)
    return case(house, attempt)


def actions(house: House, attempt: int) -> list[str]:
    """What stands in the log about a release, oldest first."""
    found = leaves(house.store, ADMIN, f"object/release/{case(house, attempt)['id']}")
    return [leaf["action"] for leaf in found["items"]][::-1]


@pytest.mark.requirement("G3", "G7", "G8")
def test_what_the_probe_still_sees_is_quarantined_with_every_reason(house: House) -> None:
    workload, attempt = quarantined(house)
    found = case(house, attempt)
    assert (found["state"], found["workload"]) == ("quarantined", workload)
    assert [(one["code"], one["signal"], one["number"]) for one in found["reasons"]] == [
        ("release.probe-occupied", "probe", 1)
    ]
    assert found["seen"]["residue"] == ["process 7 (stuck)"]
    assert sum(item["quantity"] for item in found["held"] if item["class"] == "gpu") == 4000
    assert gpu(house) == {"held": 0, "free": 0, "unavailable": 4000}
    assert actions(house, attempt) == ["release.quarantine"]


@pytest.mark.requirement("G7", "G8")
def test_a_ledger_that_does_not_agree_is_a_reason_whatever_the_probe_says(house: House) -> None:
    workload = house.submit("odd", requests=FOUR)
    house.run_until(lambda: house.phase(workload) == "running")
    assert house.loop.desk is not None
    device = next(d for d in house.loop.desk.context.state.devices.values() if d.uid.endswith("n-0/cpu"))
    device.held += 1  # memory and meter no longer say the same
    house.run_until(lambda: house.phase(workload) == "finished", step=400_000)
    receipt = house.show(workload)["attempts"][0]["receipt"]
    assert receipt["signals"] == {"control": "ended", "ledger": "differs", "probe": "free"}
    (reason,) = receipt["reasons"]
    assert (reason["code"], reason["allocated"] - reason["metered"]) == ("release.ledger-differs", 1)
    house.restart()
    attempt = parse("attempt", house.show(workload)["attempts"][0]["id"])
    house.run_until(lambda: case(house, attempt)["state"] == "proven", step=SECOND)


@pytest.mark.requirement("G8")
def test_nothing_in_quarantine_is_given_to_anybody(house: House) -> None:
    quarantined(house)
    waits = house.submit("next", requests=FOUR)
    house.tick(50, step=SECOND)
    assert house.phase(waits) == "queued"


@pytest.mark.requirement("G8", "G9", "G10")
def test_a_cause_that_vanished_releases_by_proof_and_the_next_workload_runs_there(house: House) -> None:
    workload, attempt = quarantined(house)
    waits = house.submit("next", requests=FOUR)
    house.tick(5, step=SECOND)
    engine(house).stuck = False
    house.run_until(lambda: house.phase(waits) == "finished", step=SECOND)
    found = case(house, attempt)
    assert (found["state"], found["closed_by"]) == ("proven", "control")
    assert found["receipt"]["signals"] == {"control": "ended", "ledger": "closed", "probe": "free"}
    times = ("quarantined_at", "probed_at", "confirmed_at")
    assert sorted(found["receipt"][name] for name in times) == [found["receipt"][name] for name in times]
    assert all(item["t1"] == found["closed_at"] for item in found["held"])
    first = {d["device"] for m in house.show(workload)["attempts"][0]["members"] for d in m["devices"]}
    then = {d["device"] for m in house.show(waits)["attempts"][0]["members"] for d in m["devices"]}
    assert first == then
    assert house.show(workload)["attempts"][0]["receipt"]["state"] == "quarantined"
    assert actions(house, attempt) == ["release.quarantine", "release.proven"]


@pytest.mark.requirement("G8")
def test_members_of_a_gang_on_one_node_are_kept_back_together(house: House) -> None:
    engine(house).stuck = True
    gang = house.submit("gang", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"}, count=2)
    house.run_until(lambda: house.phase(gang) == "finished", step=100_000)
    attempt = parse("attempt", house.show(gang)["attempts"][0]["id"])
    held = {item["class"]: item["quantity"] for item in case(house, attempt)["held"]}
    assert (held["cpu"], held["memory"]) == (2000, 2048)
    assert gpu(house)["unavailable"] == 2000
    assert ask(house, attempt, Asked.FORCE, "seen to be gone")["state"] == "operator-confirmed"


def test_probes_by_itself_come_ever_less_often(house: House) -> None:
    quarantined(house)
    asked: list[int] = []
    inner = engine(house).probe_release

    def count(ids: Any) -> tuple[ReleaseProbe, ...]:
        asked.append(house.clock.at)
        return inner(ids)

    engine(house).probe_release = count  # type: ignore[method-assign]
    house.tick(600, step=SECOND)
    pauses = [after - before for before, after in pairwise(asked)]
    assert 6 <= len(asked) <= 12
    assert pauses == sorted(pauses)
    house.tick(600, step=SECOND)
    assert asked[-1] - asked[-2] <= 5 * MINUTE + 2 * SECOND


@pytest.mark.requirement("G3", "G8")
def test_a_confirmation_is_refused_while_the_probe_sees_a_holder(house: House) -> None:
    _, attempt = quarantined(house)
    found = ask(house, attempt, Asked.CONFIRM)
    assert (found["state"], found["answer"]["code"]) == ("quarantined", "release.still-held")
    assert gpu(house)["unavailable"] == 4000
    assert actions(house, attempt)[1:] == ["release.confirm-asked", "release.kept"]


@pytest.mark.requirement("G3")
def test_a_confirmation_is_proven_by_a_new_probe(house: House) -> None:
    _, attempt = quarantined(house)
    engine(house).stuck = False
    found = ask(house, attempt, Asked.CONFIRM, "looked at it")
    assert (found["state"], found["closed_by"]) == ("proven", ADMIN.id)
    assert gpu(house) == {"held": 0, "free": 4000, "unavailable": 0}


def test_what_can_not_be_observed_is_not_confirmed_without_force(house: House) -> None:
    _, attempt = quarantined(house)
    engine(house).free = None
    assert ask(house, attempt, Asked.CONFIRM)["answer"]["code"] == "release.not-observable"


def test_a_cluster_that_does_not_answer_refuses_in_time(house: House) -> None:
    _, attempt = quarantined(house)
    engine(house).arm("unreachable", 100_000)
    assert ask(house, attempt, Asked.CONFIRM)["answer"]["code"] == "release.unanswered"
    engine(house).arm("unreachable", -100_000)


@pytest.mark.requirement("G8")
def test_force_closes_on_the_operators_word_and_never_as_proven(house: House) -> None:
    _, attempt = quarantined(house)
    found = ask(house, attempt, Asked.FORCE, "the driver was reloaded")
    assert (found["state"], found["closed_by"]) == ("operator-confirmed", ADMIN.id)
    assert found["receipt"]["signals"]["probe"] == "occupied"
    assert found["answer"]["reason"] == "the driver was reloaded"
    assert gpu(house)["free"] == 4000
    assert actions(house, attempt)[1:] == ["release.force-asked", "release.operator-confirmed"]


def test_a_fence_that_ends_everything_is_proven_by_the_probe(house: House) -> None:
    _, attempt = quarantined(house)
    engine(house).fencible = True
    found = ask(house, attempt, Asked.FENCE, "nobody needs it")
    assert (found["state"], found["receipt"]["done"]) == ("proven", {"processes": 1})
    assert len(engine(house).fenced) == 1


@pytest.mark.requirement("G8")
def test_what_can_not_be_ended_takes_its_devices_out_of_service_until_it_is_proven_free(house: House) -> None:
    _, attempt = quarantined(house)
    found = ask(house, attempt, Asked.FENCE, "hangs in the driver")
    assert (found["state"], found["answer"]["code"]) == ("quarantined", "release.fenced")
    assert found["fenced_at"] is not None
    waits = house.submit("next", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    house.tick(20, step=SECOND)
    assert house.phase(waits) == "queued"
    assert devices(house) == {"fenced"}
    restart(house)
    house.tick(20, step=SECOND)
    assert (house.phase(waits), devices(house)) == ("queued", {"fenced"})
    engine(house).stuck = False
    assert ask(house, attempt, Asked.CONFIRM)["state"] == "proven"
    assert devices(house) == {None}
    house.run_until(lambda: house.phase(waits) == "finished", step=SECOND)


def devices(house: House) -> set[str | None]:
    nodes, _ = inventory.nodes_page(
        house.store, ADMIN, cluster="sim", device_class="gpu", pool=None, cursor=None, limit=10
    )
    return {one["reason"] for node in nodes for one in node["devices"]}


@pytest.mark.requirement("G8")
def test_a_restart_in_quarantine_changes_nothing(house: House) -> None:
    _, attempt = quarantined(house)
    releases.ask(house.store, ADMIN, attempt, Asked.CONFIRM, None)
    restart(house)
    house.run_until(lambda: case(house, attempt)["asked"] is None, step=400_000)
    assert case(house, attempt)["state"] == "quarantined"
    engine(house).stuck = False
    assert ask(house, attempt, Asked.CONFIRM)["state"] == "proven"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_what_an_older_version_left_in_quarantine_becomes_a_release_and_comes_free(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    url = sqlite_url(tmp_path)
    if database == "postgresql":
        url = str(request.getfixturevalue("postgresql_database"))
    house = House(
        url, tmp_path, DOCUMENTS.replace("simulated\n", "simulated\n  releaseWithin: 2s\n", 1), wrap=Sticky
    )
    try:
        with monkeypatch.context() as older:
            older.setattr("steelyard.control.finish.open_release", lambda *_rest: None)
            _, attempt = quarantined(house)
        with pytest.raises(NotFoundError):
            case(house, attempt)
        restart(house)
        rows = releases.list_page
        house.run_until(lambda: bool(rows(house.store, ADMIN, closed=None, cursor=None, limit=9)[0]))
        found = case(house, attempt)
        assert [reason["code"] for reason in found["reasons"]] == ["release.adopted"]
        assert found["quarantined_at"] == found["held"][0]["t0"]
        engine(house).stuck = False
        assert ask(house, attempt, Asked.CONFIRM)["state"] == "proven"
    finally:
        house.close()


@pytest.mark.requirement("G5", "G6")
def test_quarantined_time_is_metered_as_what_it_was_and_ends_with_it(house: House) -> None:
    _, attempt = quarantined(house)
    house.tick(30, step=SECOND)
    found = ask(house, attempt, Asked.FORCE, "checked by hand")
    house.tick(5, step=SECOND)
    with house.store.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "select device_id, t0, t1, quantity from unheld_segment where reason = 'release-unconfirmed'"
        ).all()
    kept = {parse("device", item["device"]): item["quantity"] for item in found["held"]}
    assert {row.device_id for row in rows} == set(kept)
    lasted = found["closed_at"] - found["quarantined_at"]
    for device in kept:
        held = sum((row.t1 - row.t0) * row.quantity for row in rows if row.device_id == device)
        assert held == lasted * kept[device]


def test_who_may_not_manage_may_look_and_no_more(house: House) -> None:
    _, attempt = quarantined(house)
    assert releases.show(house.store, MEMBER, attempt)["state"] == "quarantined"
    with pytest.raises(ForbiddenError):
        releases.ask(house.store, MEMBER, attempt, Asked.CONFIRM, None)
    with pytest.raises(NotFoundError):
        releases.show(house.store, STRANGER, attempt)
    assert releases.list_page(house.store, STRANGER, closed=None, cursor=None, limit=10) == ([], None)
    assert len(releases.list_page(house.store, MEMBER, closed=False, cursor=None, limit=10)[0]) == 1


@pytest.mark.parametrize(
    ("asked", "reason", "code"),
    [
        (Asked.FORCE, None, "release-reason-missing"),
        (Asked.FENCE, "  ", "release-reason-missing"),
        (Asked.CONFIRM, "two\nlines", "release-reason-invalid"),
        (Asked.FORCE, "x" * 501, "release-reason-invalid"),
    ],
)
def test_a_reason_is_wanted_and_one_line(house: House, asked: Asked, reason: str | None, code: str) -> None:
    _, attempt = quarantined(house)
    with pytest.raises(InvalidError) as refused:
        releases.ask(house.store, ADMIN, attempt, asked, reason)
    assert refused.value.code == code


def test_one_question_at_a_time_and_none_once_it_is_closed(house: House) -> None:
    _, attempt = quarantined(house)
    releases.ask(house.store, ADMIN, attempt, Asked.CONFIRM, None)
    again = releases.ask(house.store, ADMIN, attempt, Asked.CONFIRM, None)
    assert again["version"] == 2
    with pytest.raises(ConflictError) as busy:
        releases.ask(house.store, ADMIN, attempt, Asked.FENCE, "now")
    assert busy.value.code == "release-asked"
    house.run_until(lambda: case(house, attempt)["asked"] is None, step=400_000)
    ask(house, attempt, Asked.FORCE, "done with it")
    with pytest.raises(ConflictError) as closed:
        releases.ask(house.store, ADMIN, attempt, Asked.CONFIRM, None)
    assert closed.value.code == "release-closed"


def test_the_doctor_says_how_many_are_in_quarantine(house: House) -> None:
    def check() -> tuple[bool | None, str]:
        found = next(one for one in examine(house.store, ADMIN, {}, None) if one.id == "quarantine")
        return found.ok, found.code

    assert check() == (True, "quarantine-empty")
    _, attempt = quarantined(house)
    assert check() == (False, "quarantine-open")
    ask(house, attempt, Asked.FORCE, "seen to be gone")
    assert check() == (True, "quarantine-empty")
