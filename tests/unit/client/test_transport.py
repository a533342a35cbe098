"""Requests: retries that do nothing twice, problems as errors, a credential that stays in its header."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from steelyard.client import ApiError, Client, NotReachableError

SECRET = "sy_secret_0123456789"
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> Client:
    """A client of a server that is a function; it never sleeps."""
    return Client(
        "http://steelyard.test", SECRET, transport=httpx.MockTransport(handler), sleep=lambda seconds: None
    )


class Flaky:
    """Fails as told before it answers, and keeps what it was asked."""

    def __init__(self, *failures: Exception | int, answer: object = None) -> None:
        self.failures = list(failures)
        self.answer = {"id": "wl_1"} if answer is None else answer
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, int):
                return httpx.Response(failure, json={"code": "lease-lost"}, headers={"Retry-After": "1"})
            raise failure
        return httpx.Response(200, json=self.answer)


LOST = httpx.ReadError("reset")
REFUSED = httpx.ConnectError("refused")


def test_a_submit_whose_answer_is_lost_is_sent_again_with_the_same_key() -> None:
    server = Flaky(LOST, 503)
    assert client(server).submit({"kind": "Workload"}) == {"id": "wl_1"}
    keys = {request.headers["Idempotency-Key"] for request in server.seen}
    assert (len(server.seen), len(keys)) == (3, 1)


def test_the_caller_may_give_the_key() -> None:
    server = Flaky()
    client(server).submit({}, key="mine")
    assert server.seen[0].headers["Idempotency-Key"] == "mine"


def test_two_submits_have_two_keys() -> None:
    server = Flaky()
    with client(server) as steelyard:
        steelyard.submit({})
        steelyard.submit({})
    assert len({request.headers["Idempotency-Key"] for request in server.seen}) == 2


def test_what_can_not_be_repeated_is_sent_once_when_its_answer_is_lost() -> None:
    server = Flaky(LOST)
    with pytest.raises(NotReachableError):
        client(server).create_user("ann")
    assert len(server.seen) == 1


def test_what_was_never_sent_is_sent_again_whatever_it_is() -> None:
    server = Flaky(REFUSED, answer={"id": "us_1", "name": "ann", "password": "x"})
    assert client(server).create_user("ann")["id"] == "us_1"


def test_a_server_that_never_answers_is_not_reachable() -> None:
    with pytest.raises(NotReachableError) as caught:
        client(Flaky(REFUSED, REFUSED, REFUSED)).workloads()
    assert caught.value.code == "server-not-reachable"
    assert caught.value.params["url"] == "http://steelyard.test"


def test_a_problem_becomes_an_error_with_code_parameters_reasons_and_text() -> None:
    problem = {
        "type": "urn:steelyard:error:refused", "title": "Refused", "status": 422, "detail": "No.",
        "code": "refused", "params": {"name": "a"}, "reasons": [{"code": "no-queue"}], "refusal": "rf_1",
        "request_id": "rq_1",
    }  # fmt: skip
    with pytest.raises(ApiError) as caught:
        client(lambda request: httpx.Response(422, json=problem)).submit({})
    error = caught.value
    assert (error.status, error.code, error.params, error.text) == (422, "refused", {"name": "a"}, "No.")
    assert error.reasons == [{"code": "no-queue"}]
    assert (error.refusal, error.request_id) == ("rf_1", "rq_1")


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b"[1]"])
def test_an_error_that_is_no_problem_is_told_by_its_status(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        client(lambda request: httpx.Response(500, content=body)).doctor()
    assert caught.value.code == "http-500"


def test_something_else_that_answers_is_told_apart() -> None:
    with pytest.raises(NotReachableError) as caught:
        client(lambda request: httpx.Response(200, content=b"<html>a router</html>")).doctor()
    assert caught.value.code == "server-not-ours"


@pytest.mark.parametrize("url", ["", "127.0.0.1:7580", "ftp://x", "http://", "http://[", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(NotReachableError) as caught:
        Client(url)
    assert caught.value.code == "server-address-invalid"


def test_a_redirect_is_not_followed_with_the_credential() -> None:
    server = Flaky()
    answer = httpx.Response(302, headers={"Location": "http://elsewhere.test/"})

    def handler(request: httpx.Request) -> httpx.Response:
        server.seen.append(request)
        return answer

    with pytest.raises((ApiError, NotReachableError)):
        client(handler).submit({})
    assert [request.url.host for request in server.seen] == ["steelyard.test"]


def test_language_and_credential_go_with_every_request() -> None:
    server = Flaky(answer={"checks": []})
    steelyard = Client("http://steelyard.test", SECRET, "zh", transport=httpx.MockTransport(server))
    steelyard.doctor()
    assert server.seen[0].headers["Accept-Language"] == "zh"
    assert server.seen[0].headers["Authorization"] == f"Bearer {SECRET}"


class _Loopback(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments: object) -> None:
        pass


def test_the_token_is_in_no_log_no_error_and_no_representation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = HTTPServer(("127.0.0.1", 0), _Loopback)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    steelyard = Client(f"http://127.0.0.1:{server.server_port}", SECRET, tries=1)
    steelyard.doctor()
    thread.join()
    server.server_close()
    with pytest.raises(NotReachableError) as caught:
        steelyard.doctor()
    shown = "\n".join([repr(steelyard), str(caught.value), repr(caught.value), caplog.text])
    assert SECRET not in shown


def test_what_reads_the_whole_house_is_waited_for() -> None:
    server = Flaky()
    asked = client(server)
    asked.audit_checks()
    asked.audit_bundle()
    asked.doctor()
    patience = [request.extensions["timeout"]["read"] for request in server.seen]
    assert patience == [1800.0, 1800.0, 30.0]
