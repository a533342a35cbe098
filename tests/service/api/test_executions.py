"""The door to commands beside a member: who is let in, what is carried, what is recorded, what ends it."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from steelyard.api import executions as door
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.model.errors import UnavailableError
from steelyard.model.execution import Channel, Execution
from steelyard.model.ids import parse, render
from steelyard.services import executions
from steelyard.services.sessions import create_token, revoke_token
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.service.api.conftest import ApiHouse
from tests.support.stores import Clock

JOB = {
    "kind": "Workload", "metadata": {"name": "run", "namespace": "vision-dev"},
    "spec": {"kind": "training", "roles": [{"name": "main", "command": ["x"], "requests": {"cpu": 1}}]},
}  # fmt: skip


class Stream:
    """A command that a test plays."""

    def __init__(self) -> None:
        self.says: queue.Queue[tuple[int, bytes] | None] = queue.Queue()
        self.heard: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self.closed = False

    def read(self) -> tuple[int, bytes] | None:
        """What the test put in."""
        return self.says.get()

    def write(self, channel: int, data: bytes) -> None:
        """For the test to look at."""
        self.heard.put((channel, data))

    def close(self) -> None:
        """Ends a read that waits."""
        self.closed = True
        self.says.put(None)

    def ends(self, code: int) -> None:
        """How it ended."""
        status = {"code": code, "signal": None, "reason": "ended", "text": ""}
        self.says.put((Channel.STATUS, json.dumps(status).encode()))


class FakeEngine:
    """An engine that runs what it is told in the test's head."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Execution]] = []
        self.stream = Stream()
        self.error: UnavailableError | None = None
        self.attached: str | None = None

    def attach(self, member_id: str) -> Stream:
        """See the port."""
        self.attached = member_id
        self.stream = Stream()
        return self.stream

    def exec(self, member_id: str, execution: Execution) -> Stream:
        """See the port."""
        if self.error is not None:
            raise self.error
        self.started.append((member_id, execution))
        self.stream = Stream()
        return self.stream


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHouse]:
    """One house for all: each test has a workload of its own, and two leaves are all that is written."""
    store = Store(sqlite_url(tmp_path_factory.mktemp("executions")), Clock())
    store.start()
    made = ApiHouse(store)
    yield made
    made.services.attempts.close()
    store.close()


@pytest.fixture
def engine(house: ApiHouse) -> FakeEngine:
    """The engine of the cluster `here`."""
    made = FakeEngine()
    house.services.engines = {"here": made}  # type: ignore[dict-item]
    return made


@pytest.fixture
def workload(house: ApiHouse, engine: FakeEngine) -> str:
    """Ann's workload, whose row says that it runs."""
    store, name = house.services.store, house.as_("ann")("POST", "/v1/workloads", JOB).json()["id"]
    with store.read() as view:
        attempt = view.execute(
            select(t.attempt.c.id).where(t.attempt.c.workload_id == parse("workload", name))
        ).scalar_one()
    unit = Unit(actor_of(SYSTEM))
    unit.update(t.workload, {"id": parse("workload", name)}, phase="running")
    unit.insert(t.member, id=store.ids.next(), attempt_id=attempt, role="main", idx=0, phase="running",
                cluster="here", node_id=1)  # fmt: skip
    store.writer.write(unit)
    return str(name)


@contextmanager
def opened(
    house: ApiHouse, who: str | None, workload: str, secret: str | None = None, door: str = "exec"
) -> Iterator[Any]:
    api = house.as_(who)
    headers = api.headers if secret is None else {"Authorization": f"Bearer {secret}"}
    with api.client.websocket_connect(f"/v1/workloads/{workload}/{door}", headers=headers) as socket:
        yield socket


def begun(socket: WebSocketTestSession, *command: str) -> dict[str, Any]:
    socket.send_text(json.dumps({"command": list(command)}))
    found: dict[str, Any] = json.loads(socket.receive_text())
    return found


def leaves(house: ApiHouse, workload: str) -> list[dict[str, Any]]:
    with house.services.store.read() as view:
        bodies = view.execute(select(t.leaf.c.body).order_by(t.leaf.c.seq)).scalars().all()
    found = [json.loads(body) for body in bodies]
    mine = [leaf for leaf in found if leaf["object"]["kind"] == "execution"]
    return [leaf for leaf in mine if leaf["detail"]["workload"] == workload]


@pytest.mark.requirement("I2", "I6")
@pytest.mark.parametrize(
    ("who", "status"),
    [(None, 401), ("nob", 404), ("bob", 404), ("vic", 403), ("aud", 403), ("ann", 101), ("admin", 101)],
)
def test_who_may_cancel_a_workload_and_nobody_else_may_run_a_command_beside_it(
    house: ApiHouse, engine: FakeEngine, workload: str, who: str | None, status: int
) -> None:
    if status != 101:
        with pytest.raises(WebSocketDenialResponse) as refused, opened(house, who, workload):
            pass
        assert refused.value.status_code == status
        assert refused.value.json()["code"]
        assert engine.started == []
        return
    with opened(house, who, workload) as socket:
        assert begun(socket, "true")["member"].startswith("mb_")
        engine.stream.ends(0)
        assert socket.receive_bytes()[0] == Channel.STATUS


def test_a_member_of_the_project_has_no_business_beside_anothers_workload(
    house: ApiHouse, engine: FakeEngine
) -> None:
    name = house.as_("admin")("POST", "/v1/workloads", JOB).json()["id"]
    with pytest.raises(WebSocketDenialResponse) as refused, opened(house, "ann", name):
        pass
    assert (refused.value.status_code, refused.value.json()["code"]) == (403, "not-owner")


def test_bytes_are_carried_by_channel_and_both_ends_are_recorded(
    house: ApiHouse, engine: FakeEngine, workload: str
) -> None:
    with opened(house, "ann", workload) as socket:
        told = begun(socket, "cat", "-n")
        assert engine.started[0][1].command == ("cat", "-n")
        socket.send_bytes(b"\x00hello")
        assert engine.stream.heard.get(timeout=10) == (Channel.STDIN, b"hello")
        socket.send_bytes(b"\x00")
        assert engine.stream.heard.get(timeout=10) == (Channel.STDIN, b"")
        engine.stream.says.put((Channel.STDERR, b"oops"))
        assert socket.receive_bytes() == b"\x02oops"
        engine.stream.ends(3)
        assert json.loads(socket.receive_bytes()[1:])["code"] == 3
        with pytest.raises(WebSocketDisconnect):
            socket.receive_bytes()
    began, ended = leaves(house, workload)
    assert (began["action"], ended["action"]) == ("workload.execute", "workload.execute-ended")
    assert began["object"]["id"] == ended["object"]["id"] == told["id"]
    assert began["detail"] == {"workload": workload, "member": told["member"], "command": ["cat", "-n"],
                               "terminal": False}  # fmt: skip
    assert (ended["detail"]["code"], ended["detail"]["reason"]) == (3, "ended")
    assert began["streams"][0]["name"] == "project/vision"


def test_a_command_is_let_go_with_the_connection(house: ApiHouse, engine: FakeEngine, workload: str) -> None:
    with opened(house, "ann", workload) as socket:
        begun(socket, "sleep", "9")
    deadline = time.monotonic() + 10
    while len(leaves(house, workload)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert engine.stream.closed
    assert leaves(house, workload)[1]["detail"]["reason"] == "left"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nonsense", "body-not-json"),
        ('{"command": []}', "field-missing"),
        ('{"command": ["a\\u0000b"]}', "field-invalid"),
        ('{"command": "true"}', "field-invalid"),
        ('{"command": ["true"], "env": {}}', "field-unknown"),
        ('{"command": ["' + "x" * 9000 + '"]}', "field-out-of-bounds"),
        ('{"command": ["true"], "terminal": {"rows": 0}}', "field-out-of-bounds"),
    ],
)
def test_a_request_that_can_not_be_meant_is_a_problem(
    house: ApiHouse, engine: FakeEngine, workload: str, text: str, code: str
) -> None:
    with opened(house, "ann", workload) as socket:
        socket.send_text(text)
        assert json.loads(socket.receive_text())["code"] == code
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()
    assert engine.started == []


def test_who_attaches_to_a_terminal_is_asked_the_same_and_recorded(
    house: ApiHouse, engine: FakeEngine, workload: str
) -> None:
    with pytest.raises(WebSocketDenialResponse) as refused, opened(house, "vic", workload, door="attach"):
        pass
    assert refused.value.status_code == 403
    with opened(house, "ann", workload, door="attach") as socket:
        assert json.loads(socket.receive_text())["member"] == engine.attached
        socket.send_bytes(b"\x00typed")
        assert engine.stream.heard.get(timeout=10) == (Channel.STDIN, b"typed")
        engine.stream.says.put((Channel.STDOUT, b"shown"))
        assert socket.receive_bytes() == b"\x01shown"
        engine.stream.ends(0)
        socket.receive_bytes()
    began, ended = leaves(house, workload)
    assert (began["action"], ended["action"]) == ("workload.attach", "workload.attach-ended")
    assert "command" not in began["detail"]


def test_what_does_not_run_has_nothing_beside_it(house: ApiHouse, engine: FakeEngine) -> None:
    name = house.as_("ann")("POST", "/v1/workloads", JOB).json()["id"]
    with opened(house, "ann", name) as socket:
        socket.send_text('{"command": ["true"]}')
        assert json.loads(socket.receive_text())["code"] == "workload-not-running"


def test_a_cluster_that_can_not_is_a_clear_error_and_recorded(
    house: ApiHouse, engine: FakeEngine, workload: str
) -> None:
    engine.error = UnavailableError("exec-not-supported")
    with opened(house, "ann", workload) as socket:
        socket.send_text('{"command": ["true"]}')
        assert json.loads(socket.receive_text())["code"] == "exec-not-supported"
    assert leaves(house, workload)[1]["detail"]["reason"] == "not-started"


def test_only_so_many_run_at_a_time(
    house: ApiHouse, engine: FakeEngine, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "MOST_OF_ONE", 1)
    with opened(house, "ann", workload) as first:
        begun(first, "sleep", "9")
        held = engine.stream
        with opened(house, "ann", workload) as second:
            second.send_text('{"command": ["true"]}')
            assert json.loads(second.receive_text())["code"] == "too-many-executions"
        held.ends(0)
        first.receive_bytes()
    with opened(house, "ann", workload) as third:
        assert "id" in begun(third, "true")


def test_one_user_does_not_take_all_there_may_be(
    house: ApiHouse, engine: FakeEngine, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "MOST_OF_USER", 1)
    with opened(house, "ann", workload) as first:
        begun(first, "sleep", "9")
        with opened(house, "ann", workload) as second:
            second.send_text('{"command": ["true"]}')
            told = json.loads(second.receive_text())
        assert (told["code"], told["params"]) == ("too-many-executions", {"most": 1, "of": "user"})
        with opened(house, "admin", workload) as other:
            assert "id" in begun(other, "true")
    with opened(house, "ann", workload) as third:
        assert "id" in begun(third, "true")


@pytest.mark.requirement("I15")
def test_a_credential_that_is_taken_away_ends_it(
    house: ApiHouse, engine: FakeEngine, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "ASK_AGAIN", 0.05)
    issued = create_token(house.services.store, SYSTEM, "short", user="ann")
    with opened(house, None, workload, issued.secret) as socket:
        begun(socket, "sleep", "9")
        revoke_token(house.services.store, SYSTEM, issued.id)
        assert json.loads(socket.receive_bytes()[1:])["reason"] == "credential-invalid"
    assert engine.stream.closed


@pytest.mark.parametrize(("limit", "reason"), [("IDLE", "idle-limit"), ("LONGEST", "time-limit")])
def test_its_time_is_limited(
    house: ApiHouse, engine: FakeEngine, workload: str, monkeypatch: pytest.MonkeyPatch, limit: str,
    reason: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(door, "ASK_AGAIN", 0.05)
    monkeypatch.setattr(door, limit, 100_000)
    with opened(house, "ann", workload) as socket:
        begun(socket, "sleep", "9")
        assert json.loads(socket.receive_bytes()[1:])["reason"] == reason


@pytest.mark.parametrize("message", [b"", b"\x01out", b"\x09x", b"\x00" + b"x" * 70_000])
def test_a_message_that_can_not_be_meant_ends_it(
    house: ApiHouse, engine: FakeEngine, workload: str, message: bytes
) -> None:
    with opened(house, "ann", workload) as socket:
        begun(socket, "sleep", "9")
        socket.send_bytes(message)
        assert json.loads(socket.receive_bytes()[1:])["reason"] == "message-invalid"


def test_a_workload_that_is_not_there_is_not_there(house: ApiHouse) -> None:
    nothing = render("workload", 0)
    with pytest.raises(WebSocketDenialResponse) as refused, opened(house, "admin", nothing):
        pass
    assert refused.value.status_code == 404


@pytest.mark.requirement("K2")
def test_who_tried_and_may_not_is_in_the_audit(house: ApiHouse, engine: FakeEngine, workload: str) -> None:
    with pytest.raises(WebSocketDenialResponse), opened(house, "vic", workload, door="attach"):
        pass
    deadline = time.monotonic() + 10
    while True:
        with house.services.store.read() as view:
            bodies = view.execute(select(t.leaf.c.body).where(t.leaf.c.action == "access.refused")).scalars()
            details = [json.loads(body)["detail"] for body in bodies]
        mine = [one for one in details if one["object"] == workload]
        if mine:
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert mine[0]["request"] == "WEBSOCKET /v1/workloads/{workload_id}/attach"
    assert (mine[0]["code"], mine[0]["verb"]) == ("missing-grant", "execute")
