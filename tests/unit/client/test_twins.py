"""The asynchronous client is the client, awaited: the same methods, the same answers, the same patience."""

from __future__ import annotations

import asyncio
import base64
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import httpx
import pytest

from steelyard.client import ApiError, AsyncClient, Client, NotReachableError, WaitTimeoutError
from steelyard.client.asynchronous.execution import AsyncExecution
from steelyard.client.execution import Execution
from tests.unit.client.test_client import Server, view

T = TypeVar("T")
#: What a twin returns where it does not return the same, awaited.
TURNED = {"Iterator": "AsyncIterator", "Execution": "AsyncExecution"}
#: What a context manager is called.
ENTER = {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: function for name, function in found if not name.startswith("_")}


PAIRS = [(Client, AsyncClient), (Execution, AsyncExecution)]
NAMED = [(one, other, name) for one, other in PAIRS for name in methods(one)]


def turned(annotation: str) -> str:
    head, bracket, rest = annotation.partition("[")
    return TURNED.get(head, head) + bracket + rest


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_neither_client_has_a_method_that_the_other_lacks(one: type, other: type) -> None:
    assert set(methods(one)) == set(methods(other))
    assert len(methods(Client)) > 60


@pytest.mark.parametrize(("one", "other", "name"), NAMED)
def test_a_method_and_its_twin_have_one_signature(one: type, other: type, name: str) -> None:
    first, second = (inspect.signature(getattr(kind, name)) for kind in (one, other))
    assert list(first.parameters.values()) == list(second.parameters.values())
    assert turned(str(first.return_annotation)) == str(second.return_annotation)


@pytest.mark.parametrize(("one", "other", "name"), NAMED)
def test_a_twin_is_awaited_or_iterated_over(one: type, other: type, name: str) -> None:
    twin = getattr(other, name)
    iterated = str(inspect.signature(twin).return_annotation).startswith("AsyncIterator")
    assert iterated or inspect.iscoroutinefunction(twin)


@pytest.mark.parametrize(("one", "other", "name"), NAMED)
def test_a_method_and_its_twin_say_the_same_of_themselves(one: type, other: type, name: str) -> None:
    first, second = (inspect.getdoc(getattr(kind, name)) for kind in (one, other))
    assert first is not None
    assert second is not None
    assert first.splitlines()[0] == second.splitlines()[0]


def with_client(server: Server, act: Callable[[AsyncClient], Awaitable[T]], **options: Any) -> T:
    """What a function makes of a client of the server, whose clock moves by its sleeps."""

    async def sleep(seconds: float) -> None:
        server.slept.append(seconds)
        server.now += seconds

    async def run() -> T:
        async with AsyncClient(
            "http://steelyard.test",
            transport=httpx.MockTransport(server),
            sleep=sleep,
            clock=lambda: server.now,
            **options,
        ) as client:
            return await act(client)

    return asyncio.run(run())


async def listed(pieces: AsyncIterator[T]) -> list[T]:
    return [piece async for piece in pieces]


PAGES = ({"items": [1, 2], "next_cursor": "c"}, {"items": [3], "next_cursor": None})


def test_a_list_is_read_page_after_page() -> None:
    server = Server().on("GET", "/v1/workloads", *PAGES)
    assert with_client(server, lambda client: client.workloads(project="alpha")) == [1, 2, 3]
    assert server.seen[1].url.params["cursor"] == "c"


def test_a_page_is_read_when_its_first_row_is_asked_for() -> None:
    server = Server().on("GET", "/v1/workloads", *PAGES)

    async def two(client: AsyncClient) -> list[Any]:
        rows = client.each_workload()
        return [await anext(rows), await anext(rows)]

    assert with_client(server, two) == [1, 2]
    assert len(server.seen) == 1
    again = Server().on("GET", "/v1/workloads", *PAGES)
    assert with_client(again, lambda client: listed(client.each_workload())) == [1, 2, 3]


def test_the_client_too_reads_a_page_when_it_needs_it() -> None:
    server = Server().on("GET", "/v1/workloads", *PAGES)
    rows = server.client().each_workload(project="alpha")
    assert [next(rows), next(rows)] == [1, 2]
    assert len(server.seen) == 1
    assert list(rows) == [3]


def test_a_change_that_is_sent_again_carries_its_key() -> None:
    answers = [httpx.Response(503, headers={"Retry-After": "2"}), httpx.Response(503), {"id": "wl_1"}]
    server = Server().on("POST", "/v1/workloads", *answers)
    assert with_client(server, lambda client: client.submit({"kind": "Workload"})) == {"id": "wl_1"}
    assert len({request.headers["Idempotency-Key"] for request in server.seen}) == 1
    assert server.slept[0] == 2.0


def test_a_wait_tells_changes_and_says_where_it_stood_in_vain() -> None:
    seen: list[str] = []
    views = view("queued", 1), view("running", 2), view("finished", 3)
    server = Server().on("GET", "/v1/workloads/wl_1", *views)
    done = with_client(
        server, lambda client: client.wait("wl_1", on_change=lambda found: seen.append(found["phase"]))
    )
    assert (done["phase"], seen) == ("finished", ["queued", "running", "finished"])
    waiting = Server().on("GET", "/v1/workloads/wl_1", view("queued", 1))
    with pytest.raises(WaitTimeoutError) as caught:
        with_client(waiting, lambda client: client.wait("wl_1", timeout=10))
    assert caught.value.params == {"id": "wl_1", "seconds": 10, "phase": "queued"}


def test_a_followed_log_that_breaks_off_goes_on_where_it_was() -> None:
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"event: log\ndata: " + base64.b64encode(b"one") + b"\n\n"
            raise httpx.ReadError("reset")

    rest = f"event: log\ndata: {base64.b64encode(b'two').decode()}\n\nevent: end\ndata: {{}}\n\n"
    answers = httpx.Response(200, stream=Broken()), httpx.Response(200, text=rest)
    server = Server().on("GET", "/v1/workloads/wl_1/logs/stream", *answers)
    assert with_client(server, lambda client: listed(client.follow_logs("wl_1"))) == [b"one", b"two"]
    assert [r.url.params["offset"] for r in server.seen] == ["0", "3"]


def test_problems_are_errors_and_nobody_is_not_reachable() -> None:
    with pytest.raises(ApiError) as refused:
        with_client(Server(), lambda client: client.find("train"))
    assert refused.value.code == "not-found"

    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def ask() -> None:
        async def no_sleep(seconds: float) -> None:
            pass

        transport = httpx.MockTransport(gone)
        async with AsyncClient("http://steelyard.test", transport=transport, sleep=no_sleep) as client:
            await client.me()

    with pytest.raises(NotReachableError):
        asyncio.run(ask())
    with pytest.raises(NotReachableError):
        AsyncClient("file:///etc/passwd")


def test_many_are_asked_for_at_once() -> None:
    server = Server().on("GET", "/v1/workloads/wl_1", view("queued", 1))

    async def both(client: AsyncClient) -> list[Any]:
        return list(await asyncio.gather(*(client.workload("wl_1") for _ in range(20))))

    assert len(with_client(server, both)) == 20


def test_the_asynchronous_client_costs_nothing_where_it_is_not_used() -> None:
    code = "import sys, steelyard.client as c; assert 'websockets.asyncio' not in sys.modules; c.AsyncClient"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
