"""The client's methods against a server that is a function."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from steelyard.client import ApiError, Client, WaitTimeoutError


class Server:
    """Answers by (method, path); keeps the requests."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {}
        self.seen: list[httpx.Request] = []
        self.slept: list[float] = []
        self.now = 0.0

    def on(self, method: str, path: str, *answers: Any) -> Server:
        self.answers[f"{method} {path}"] = list(answers)
        return self

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        queue = self.answers.get(f"{request.method} {request.url.raw_path.decode().partition('?')[0]}")
        if queue is None:
            return httpx.Response(404, json={"code": "not-found", "params": {"kind": "route", "id": ""}})
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def client(self) -> Client:
        def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds

        return Client(
            "http://steelyard.test",
            transport=httpx.MockTransport(self),
            sleep=sleep,
            clock=lambda: self.now,
        )


def test_a_list_is_read_page_after_page() -> None:
    server = Server().on(
        "GET", "/v1/workloads", {"items": [1, 2], "next_cursor": "c"}, {"items": [3], "next_cursor": None}
    )
    assert server.client().workloads(project="alpha") == [1, 2, 3]
    assert [dict(r.url.params) for r in server.seen] == [
        {"project": "alpha", "limit": "200"},
        {"project": "alpha", "limit": "200", "cursor": "c"},
    ]


def test_no_more_is_asked_for_than_is_wanted() -> None:
    server = Server().on("GET", "/v1/workloads", {"items": [1, 2], "next_cursor": "c"})
    assert server.client().workloads(2) == [1, 2]
    assert server.seen[0].url.params["limit"] == "2"
    assert len(server.seen) == 1


def test_login_is_used_from_then_on_and_logout_ends_it() -> None:
    server = Server().on("POST", "/v1/sessions", {"token": "t", "expires_at": 1, "user": "ann"})
    server.on("GET", "/v1/me", {"name": "ann"}).on("DELETE", "/v1/sessions/current", httpx.Response(204))
    client = server.client()
    client.login("ann", "pw")
    client.me()
    client.logout()
    client.me()
    assert [r.headers.get("Authorization") for r in server.seen] == [None, "Bearer t", "Bearer t", None]


def test_apply_sends_documents_and_diff_changes_nothing() -> None:
    server = Server().on("POST", "/v1/objects:apply", {"results": [{"kind": "Team"}]})
    client = server.client()
    assert client.apply([{"kind": "Team"}]) == [{"kind": "Team"}]
    client.diff([{"kind": "Team"}])
    assert json.loads(server.seen[0].content) == {"documents": [{"kind": "Team"}]}
    assert [r.url.params.get("dry_run") for r in server.seen] == [None, "true"]


@pytest.mark.parametrize("verb", ["cancel", "retry", "hold", "release"])
def test_acts_name_the_version_they_were_decided_on(verb: str) -> None:
    server = Server().on("POST", f"/v1/workloads/wl_1/{verb}", {"id": "wl_1"})
    getattr(server.client(), verb)("wl_1", version=7)
    assert server.seen[0].headers["If-Match"] == '"7"'


@pytest.mark.parametrize("name", ["../../v1/users", "a/b", "..", "a?x=1", "a#b"])
def test_a_name_can_not_lead_to_another_path(name: str) -> None:
    server = Server()
    with pytest.raises(ApiError):
        server.client().workload(name)
    path = server.seen[0].url.raw_path.decode()
    assert path.startswith("/v1/workloads/")
    assert "/" not in path.removeprefix("/v1/workloads/")
    assert "?" not in path


def test_a_log_is_read_to_its_end_by_offsets() -> None:
    def chunk(data: bytes, offset: int) -> dict[str, Any]:
        shown = base64.b64encode(data).decode()
        return {"offset": offset, "next_offset": offset + len(data), "end": False, "data_base64": shown}

    server = Server().on(
        "GET", "/v1/workloads/wl_1/logs", chunk(b"a\x00", 0), chunk(b"bc", 2), chunk(b"", 4)
    )
    assert b"".join(server.client().logs("wl_1")) == b"a\x00bc"
    assert [r.url.params["offset"] for r in server.seen] == ["0", "2", "4"]


def test_a_followed_log_ends_with_its_end_event() -> None:
    data = base64.b64encode(b"hello").decode()
    text = f": hello\n\nevent: log\ndata: {data}\n\nevent: end\ndata: {{}}\n\nevent: log\ndata: {data}\n\n"
    server = Server().on("GET", "/v1/workloads/wl_1/logs/stream", httpx.Response(200, text=text))
    assert list(server.client().follow_logs("wl_1")) == [b"hello"]


def test_a_followed_log_that_breaks_off_goes_on_where_it_was() -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"event: log\ndata: " + base64.b64encode(b"one") + b"\n\n"
            raise httpx.ReadError("reset")

    rest = f"event: log\ndata: {base64.b64encode(b'two').decode()}\n\nevent: end\ndata: {{}}\n\n"
    answers = httpx.Response(200, stream=Broken()), httpx.Response(200, text=rest)
    server = Server().on("GET", "/v1/workloads/wl_1/logs/stream", *answers)
    assert list(server.client().follow_logs("wl_1")) == [b"one", b"two"]
    assert [r.url.params["offset"] for r in server.seen] == ["0", "3"]


def test_a_log_that_can_not_be_read_any_more_is_an_error() -> None:
    text = 'event: error\ndata: {"code": "cluster-unreachable", "params": {"cluster": "a"}}\n\n'
    server = Server().on("GET", "/v1/workloads/wl_1/logs/stream", httpx.Response(200, text=text))
    with pytest.raises(ApiError) as caught:
        list(server.client().follow_logs("wl_1"))
    assert caught.value.code == "cluster-unreachable"


def test_a_stream_that_is_refused_is_an_error() -> None:
    problem = httpx.Response(404, json={"code": "not-found", "params": {}})
    server = Server().on("GET", "/v1/workloads/wl_1/logs/stream", problem)
    with pytest.raises(ApiError):
        list(server.client().follow_logs("wl_1"))


def test_events_are_changes_and_nothing_else() -> None:
    text = 'event: change\ndata: {"id": "wl_1"}\n\nevent: ping\ndata: 1\n\nevent: change\ndata: ?\n\n'
    server = Server().on("GET", "/v1/events/stream", httpx.Response(200, text=text))
    assert list(server.client().events()) == [{"id": "wl_1"}]


def view(phase: str, version: int) -> dict[str, Any]:
    return {"id": "wl_1", "phase": phase, "version": version}


def test_a_wait_tells_each_change_once_and_ends_with_the_phase() -> None:
    views = [view("queued", 1), view("queued", 1), view("running", 2), view("finished", 3)]
    server = Server().on("GET", "/v1/workloads/wl_1", *views)
    seen: list[str] = []
    done = server.client().wait("wl_1", on_change=lambda found: seen.append(found["phase"]))
    assert (done["phase"], seen) == ("finished", ["queued", "running", "finished"])


def test_a_wait_for_running_ends_when_the_workload_has_finished_meanwhile() -> None:
    server = Server().on("GET", "/v1/workloads/wl_1", view("finished", 9))
    assert server.client().wait("wl_1", "running")["phase"] == "finished"


def test_a_wait_in_vain_says_where_it_stood() -> None:
    server = Server().on("GET", "/v1/workloads/wl_1", view("queued", 1))
    with pytest.raises(WaitTimeoutError) as caught:
        server.client().wait("wl_1", timeout=10)
    assert caught.value.params == {"id": "wl_1", "seconds": 10, "phase": "queued"}
    assert max(server.slept) <= 1.0


def test_a_workload_is_found_by_its_exact_name() -> None:
    rows = [{"id": "wl_2", "name": "train-10"}, {"id": "wl_1", "name": "train-1"}]
    server = Server().on("GET", "/v1/workloads", {"items": rows, "next_cursor": None})
    client = server.client()
    assert client.find("train-1") == "wl_1"
    assert client.find("wl_9") == "wl_9"
    with pytest.raises(ApiError) as caught:
        client.find("train")
    assert (caught.value.code, caught.value.status) == ("not-found", 404)


def test_usage_is_asked_for_by_window_and_keys() -> None:
    server = Server().on("GET", "/v1/usage", {"rows": []})
    server.client().usage(1, 2, "project,class")
    assert dict(server.seen[0].url.params) == {"from": "1", "to": "2", "by": "project,class"}


def test_a_bundle_is_bytes() -> None:
    server = Server().on("POST", "/v1/audit/bundle", httpx.Response(200, content=b"tar\x00"))
    assert server.client().audit_bundle(start=5) == b"tar\x00"
    assert json.loads(server.seen[0].content) == {"from": 5}


def test_any_request_can_be_made_by_hand_and_a_problem_is_an_answer() -> None:
    server = Server().on("GET", "/v1/x", httpx.Response(409, json={"code": "c"}))
    assert server.client().call("GET", "/v1/x", query={"a": 1}) == (409, {"code": "c"})


def test_a_client_is_made_from_the_environment() -> None:
    client = Client.from_environment({"STEELYARD_URL": "http://127.0.0.1:9/", "STEELYARD_TOKEN": "t"})
    assert client.url == "http://127.0.0.1:9"
