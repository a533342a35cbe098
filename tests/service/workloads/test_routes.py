"""Workloads, refusals, inventory and streams over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from steelyard.api.app import create_app
from steelyard.api.context import Services
from steelyard.api.events import broadcaster
from steelyard.api.streams import QUEUE, Broadcaster, Subscriber
from steelyard.engines.port import EngineUnavailable, LogChunk
from steelyard.evidence.leaf import ActorRef
from steelyard.identity.actor import SYSTEM
from steelyard.model.ids import parse, render
from steelyard.services import declared
from steelyard.services.changes import Change, end_of_log, read_changes
from steelyard.services.sessions import create_token
from steelyard.services.setup import first_start
from steelyard.services.users import create_user, disable_user
from steelyard.services.workloads import Desk
from steelyard.store import tables as t
from steelyard.store.unit import Unit
from tests.support.stores import apply, doc
from tests.support.worlds import workload


class FakeEngine:
    """Logs of one member, given out in small pieces."""

    cluster = "sim"

    def __init__(self, text: bytes, *, broken: bool = False) -> None:
        self.text = text
        self.broken = broken

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """At most seven bytes at once."""
        if self.broken:
            raise EngineUnavailable("cluster-unreachable", cluster="sim")
        data = self.text[offset : offset + min(limit, 7)]
        return LogChunk(data, offset + len(data), offset + len(data) == len(self.text))


class House:
    """The app over the declared house, with people who are signed in."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        store = desk.store
        self.services = Services.over(store, desk=desk)
        self.client = TestClient(create_app(self.services), raise_server_exceptions=False)
        first_start(store)
        self.secrets = {}
        people = {"ann": ("member", "vision"), "bob": ("member", "speech"), "vic": ("viewer", "vision")}
        for name, (role, project) in people.items():
            create_user(store, SYSTEM, name)
            apply(store, doc("Binding", name, user=name, role=role, project=project))
        for name in ("admin", *people):
            self.secrets[name] = create_token(store, SYSTEM, "test", user=name).secret

    def __call__(
        self, who: str, method: str, path: str, body: Any = None, lang: str = "en", **headers: str
    ) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {"Authorization": f"Bearer {self.secrets[who]}", "Accept-Language": lang}
        return self.client.request(method, path, json=body, headers=given)


@pytest.fixture
def house(desk: Desk) -> Iterator[House]:
    made = House(desk)
    yield made
    made.services.attempts.close()


def events(text: str) -> list[tuple[str, str]]:
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], lines["data"]))
    return found


def test_a_submit_answers_201_with_the_view_and_its_version(house: House) -> None:
    answer = house("ann", "POST", "/v1/workloads", workload())
    assert answer.status_code == 201
    assert answer.headers["ETag"] == '"1"'
    shown = answer.json()
    assert shown["submitter"] == "ann"
    assert shown["reasons"][0]["text"]
    again = house("ann", "GET", f"/v1/workloads/{shown['id']}").json()
    assert again == shown


def test_a_refusal_is_a_problem_with_all_reasons_in_the_reader_s_language(house: House) -> None:
    answer = house("ann", "POST", "/v1/workloads", workload("job", count=99), lang="zh")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "refused")
    assert len(problem["reasons"]) >= 2
    assert all(reason["text"] for reason in problem["reasons"])
    assert any("\u4e00" <= letter <= "\u9fff" for letter in problem["reasons"][0]["text"])
    (record,) = house("ann", "GET", "/v1/refusals").json()["items"]
    assert record["id"] == problem["refusal"]
    assert house("ann", "GET", f"/v1/refusals/{record['id']}").json()["reasons"] == record["reasons"]
    assert house("bob", "GET", f"/v1/refusals/{record['id']}").status_code == 404


def test_the_same_key_makes_one_workload(house: House) -> None:
    first, second = (
        house("ann", "POST", "/v1/workloads", workload(), Idempotency_Key="once") for _ in range(2)
    )
    assert first.json()["id"] == second.json()["id"]
    assert (second.status_code, second.headers["Idempotency-Replayed"]) == (201, "true")
    other = house("ann", "POST", "/v1/workloads", workload("other"), Idempotency_Key="once")
    assert other.status_code == 409
    assert len(house("ann", "GET", "/v1/workloads").json()["items"]) == 1


@pytest.mark.requirement("J11")
@pytest.mark.parametrize(
    ("who", "document", "status"),
    [
        ("ann", workload("job", count=99), 422),
        ("ann", workload("job", "speech-dev"), 422),
        ("vic", workload("job"), 403),
        ("ann", {"kind": "Workload", "metadata": {}}, 400),
    ],
    ids=["never fits", "no namespace", "missing grant", "invalid"],
)
def test_a_refused_request_sent_twice_under_one_key_is_refused_once(
    house: House, who: str, document: dict[str, Any], status: int
) -> None:
    first, second = (house(who, "POST", "/v1/workloads", document, Idempotency_Key="once") for _ in range(2))
    assert first.status_code == second.status_code == status
    told = [{**answer.json(), "request_id": None} for answer in (first, second)]
    assert told[0] == told[1]
    assert len(house("admin", "GET", "/v1/refusals").json()["items"]) == 1


def test_a_dry_run_answers_200_and_submits_nothing(house: House) -> None:
    answer = house("ann", "POST", "/v1/workloads?dry_run=true", workload())
    assert (answer.status_code, answer.json()["would"]) == (200, "start")
    assert house("ann", "GET", "/v1/workloads").json()["items"] == []


@pytest.mark.parametrize("act", ["cancel", "hold"])
def test_a_change_answers_202_and_keeps_to_the_named_version(house: House, act: str) -> None:
    name = house("ann", "POST", "/v1/workloads", workload()).json()["id"]
    stale = house("ann", "POST", f"/v1/workloads/{name}/{act}", If_Match='"7"')
    assert (stale.status_code, stale.json()["code"]) == (409, "version-mismatch")
    done = house("ann", "POST", f"/v1/workloads/{name}/{act}", If_Match='"1"')
    assert (done.status_code, done.headers["ETag"]) == (202, '"2"')


def test_a_change_sent_twice_under_one_key_is_made_once(house: House) -> None:
    name = house("ann", "POST", "/v1/workloads", workload()).json()["id"]
    house("ann", "POST", f"/v1/workloads/{name}/cancel")
    answers = [house("ann", "POST", f"/v1/workloads/{name}/retry", Idempotency_Key="again") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[1].json()["attempt"] == 2


def test_lists_are_filtered_paged_and_told_apart_by_reader(house: House) -> None:
    for index in range(3):
        house("ann", "POST", "/v1/workloads", workload(f"job-{index}"))
    page = house("ann", "GET", "/v1/workloads?limit=2&order=oldest").json()
    rest = house("ann", "GET", f"/v1/workloads?limit=2&order=oldest&cursor={page['next_cursor']}").json()
    assert [row["name"] for row in page["items"] + rest["items"]] == ["job-0", "job-1", "job-2"]
    assert rest["next_cursor"] is None
    assert house("bob", "GET", "/v1/workloads").json()["items"] == []
    assert house("ann", "GET", "/v1/workloads?phase=live&q=job-1").json()["items"][0]["name"] == "job-1"
    assert house("ann", "GET", "/v1/workloads?phase=nonsense").status_code == 400


@pytest.mark.parametrize(
    "name", ["nonsense", "wl_", "at_0000000000000", "wl_zzzzzzzzzzzzz", "wl_0000000000000"]
)
def test_an_id_that_is_none_is_an_error_not_a_failure(house: House, name: str) -> None:
    assert house("ann", "GET", f"/v1/workloads/{name}").status_code in (400, 404)


def test_inventory_queues_and_doctor_answer(house: House) -> None:
    nodes = house("ann", "GET", "/v1/inventory?class=gpu").json()["items"]
    assert [device["class"] for device in nodes[0]["devices"]] == ["gpu"] * 4
    card = house("bob", "GET", f"/v1/devices/{nodes[0]['devices'][0]['id']}").json()
    assert card["capacity"] == 1000
    assert {c["class"] for c in house("bob", "GET", "/v1/inventory/summary").json()["classes"]} == {
        "gpu",
        "cpu",
        "memory",
    }
    assert house("ann", "GET", "/v1/queues").json()[0]["name"] == "main"
    assert house("ann", "GET", "/v1/doctor").status_code == 403
    checks = {check["id"]: check for check in house("admin", "GET", "/v1/doctor").json()["checks"]}
    assert checks["database"]["ok"]
    assert checks["log"]["code"] == "log-head-verifies"
    assert checks["cluster/sim"]["ok"]
    assert all(check["text"] and "doctor." not in check["text"] for check in checks.values())


def test_a_damaged_log_is_found_by_the_doctor(house: House) -> None:
    unit = Unit(ActorRef("control", "control"))
    unit.update(t.leaf, {"seq": 3}, body=b"{}")
    house.desk.store.writer.write(unit)
    checks = {check["id"]: check for check in house("admin", "GET", "/v1/doctor").json()["checks"]}
    assert (checks["log"]["ok"], checks["log"]["code"]) == (False, "log-leaf-altered")


# --- logs --------------------------------------------------------------------------------------------
def running_member(house: House) -> str:
    name: str = house("ann", "POST", "/v1/workloads", workload()).json()["id"]
    with house.desk.store.read() as view:
        attempt = view.execute(t.attempt.select()).one().id
    unit = Unit(ActorRef("control", "control"))
    for index in range(2):
        unit.insert(
            t.member, id=house.desk.store.ids.next(), attempt_id=attempt, role="main", idx=index,
            phase="running", cluster="sim", node_id=1,
        )  # fmt: skip
    house.desk.store.writer.write(unit)
    return name


def test_a_log_of_a_member_that_its_engine_does_not_know_yet_is_not_at_its_end(house: House) -> None:
    name = running_member(house)
    house.services.engines = {"sim": FakeEngine(b"")}  # type: ignore[dict-item]
    path = f"/v1/workloads/{name}/logs"
    assert house("ann", "GET", path).json()["end"]
    unit = Unit(ActorRef("control", "control"))
    with house.desk.store.read() as view:
        ids = [row.id for row in view.execute(t.member.select())]
    for number in ids:
        unit.update(t.member, {"id": number}, phase="starting")
    house.desk.store.writer.write(unit)
    assert not house("ann", "GET", path).json()["end"]


def test_logs_are_bytes_with_an_offset(house: House) -> None:
    name = running_member(house)
    house.services.engines = {"sim": FakeEngine(b"\x00\x1b[31mred\xff\n end")}  # type: ignore[dict-item]
    data, offset, end = b"", 0, False
    while not end:
        chunk = house("ann", "GET", f"/v1/workloads/{name}/logs?offset={offset}").json()
        data, offset, end = data + b64decode(chunk["data_base64"]), chunk["next_offset"], chunk["end"]
    assert data == b"\x00\x1b[31mred\xff\n end"


def test_a_log_is_followed_to_its_end(house: House) -> None:
    name = running_member(house)
    house.services.engines = {"sim": FakeEngine(b"one\ntwo\nthree\n")}  # type: ignore[dict-item]
    found = events(house("ann", "GET", f"/v1/workloads/{name}/logs/stream?member=main/1").text)
    assert b"".join(b64decode(data) for kind, data in found if kind == "log") == b"one\ntwo\nthree\n"
    assert [kind for kind, _ in found if kind != "log"] == ["member", "end"]
    assert json.loads(found[0][1])["index"] == 1


def test_logs_of_a_cluster_that_can_t_be_asked_are_unavailable(house: House) -> None:
    name = running_member(house)
    assert house("ann", "GET", f"/v1/workloads/{name}/logs").json()["code"] == "cluster-not-served"
    house.services.engines = {"sim": FakeEngine(b"", broken=True)}  # type: ignore[dict-item]
    assert house("ann", "GET", f"/v1/workloads/{name}/logs").status_code == 503
    found = events(house("ann", "GET", f"/v1/workloads/{name}/logs/stream").text)
    assert found[-1][0] == "error"


def test_logs_are_read_by_those_who_see_the_workload(house: House) -> None:
    name = running_member(house)
    house.services.engines = {"sim": FakeEngine(b"secret")}  # type: ignore[dict-item]
    with house.desk.store.read() as view:
        member = render("member", view.execute(t.member.select()).first().id)  # type: ignore[union-attr]
    own = house("bob", "POST", "/v1/workloads", workload("job", "speech-dev")).json()["id"]
    for path in (f"{name}/logs", f"{name}/logs/stream", f"{own}/logs?member={member}"):
        assert house("bob", "GET", f"/v1/workloads/{path}").status_code == 404
    assert house("ann", "GET", f"/v1/workloads/{name}/logs?member=main/9").status_code == 404
    assert house("bob", "GET", f"/v1/workloads/{own}/logs").status_code == 404


# --- changes -----------------------------------------------------------------------------------------
def test_changes_are_told_to_those_who_may_see_them(house: House) -> None:
    def later() -> None:
        time.sleep(0.4)
        house.desk.store.writer.write(house.desk.plan(SYSTEM, workload("live")).unit)
        house.desk.store.writer.write(house.desk.plan(SYSTEM, workload("other", "speech-dev")).unit)

    known = house.desk.store.writer.state.size - 1  # however late the stream begins, nothing is missed
    thread = threading.Thread(target=later)
    thread.start()
    found = events(house("ann", "GET", f"/v1/events/stream?seconds=2&after={known}").text)
    thread.join()
    changes = [json.loads(data) for kind, data in found if kind == "change"]
    assert [(c["kind"], c["phase"], c["project"]) for c in changes] == [("workload", "queued", "vision")]
    assert found[0][0] == "hello"
    assert found[-1][0] == "end"


def test_a_slow_reader_is_dropped_and_holds_nobody_up() -> None:
    async def overflow() -> Subscriber:
        subscriber = Subscriber(lambda _change: True)
        for number in range(QUEUE + 1):
            subscriber.offer(Change(number, 1, "a", "workload", "x", 1, None, None))
        return subscriber

    assert asyncio.run(overflow()).dropped


def test_of_several_changes_of_one_object_the_last_is_told(house: House) -> None:
    after = end_of_log(house.desk.store)
    name = house("ann", "POST", "/v1/workloads", workload()).json()["id"]
    house("ann", "POST", f"/v1/workloads/{name}/hold")
    found, end = read_changes(house.desk.store, after)
    own = [change for change in found if change.id == name]
    assert [(change.phase, change.version) for change in own] == [("held", 2)]
    assert end == end_of_log(house.desk.store)
    assert parse("workload", name)


def test_one_reader_of_the_log_serves_all_pages(house: House) -> None:
    assert broadcaster(house.services) is broadcaster(house.services)


# --- streams of those who may read no more ----------------------------------------------------------
class _Endless:
    """A log that never ends; `read` is set once somebody reads it."""

    def __init__(self) -> None:
        self.read = threading.Event()

    def logs(self, _member: str, offset: int, _limit: int) -> LogChunk:
        self.read.set()
        return LogChunk(b"line\n", offset + 5, False)


@pytest.mark.requirement("I15")
@pytest.mark.parametrize("by", ["unbound", "disabled"])
def test_who_may_read_no_more_is_cut_off_from_a_log_that_it_follows(
    house: House, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.api.logs.ASK_AGAIN", 0.0)
    name = running_member(house)
    engine = _Endless()
    house.services.engines = {"sim": engine}  # type: ignore[dict-item]

    def later() -> None:
        engine.read.wait(30)
        _cut_off(house, by)

    cut_off = threading.Thread(target=later)
    cut_off.start()
    found = events(house("ann", "GET", f"/v1/workloads/{name}/logs/stream").text)
    cut_off.join()
    assert found[-1][0] == "end"
    assert json.loads(found[-1][1])["code"] == ("not-found" if by == "unbound" else "credential-invalid")


@pytest.mark.requirement("I15")
@pytest.mark.parametrize("by", ["unbound", "disabled"])
def test_who_may_see_no_more_is_told_of_no_more_changes(
    house: House, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.api.events.ASK_AGAIN", 0.0)
    opened, subscribe = threading.Event(), Broadcaster.subscribe

    def subscribed(source: Broadcaster, wanted: Callable[[Change], bool]) -> Subscriber:
        opened.set()
        return subscribe(source, wanted)

    monkeypatch.setattr(Broadcaster, "subscribe", subscribed)

    def later() -> None:
        opened.wait(30)
        _cut_off(house, by)
        house.desk.store.writer.write(house.desk.plan(SYSTEM, workload("secret")).unit)

    thread = threading.Thread(target=later)
    thread.start()
    found = events(house("ann", "GET", "/v1/events/stream?seconds=2").text)
    thread.join()
    assert [data for kind, data in found if kind == "change"] == []


def _cut_off(house: House, by: str) -> None:
    store = house.desk.store
    if by == "disabled":
        disable_user(store, SYSTEM, "ann")
    else:
        declared.retire(store, SYSTEM, "Binding", "ann")
