"""Both clients, the notebook, `top` and completion against the real server."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.client import ApiError, AsyncClient, Client
from steelyard.model.execution import Channel
from tests.support.server import PROGRAM, Server, document, environment
from tests.support.terminal import Terminal

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "notebook" / "steelyard.ipynb"
#: Declared by the notebook's README.
FILES = ("clusters", "organisation", "pools", "policy")
HERE = {"clusters": ["this-machine"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the smallest pool and one workload that runs."""
    made = Server(tmp_path_factory.mktemp("sdk") / "data").start()
    try:
        files = [(EXAMPLES / "minimal" / f"{name}.yaml").read_text(encoding="utf-8") for name in FILES]
        made.apply("\n---\n".join(files))
        with client(made) as sdk:
            sdk.wait(sdk.submit(small("sleeper", "sleep", "600"))["id"], "running", timeout=60)
        yield made
    finally:
        made.close()


def settings(server: Server, lang: str = "en") -> dict[str, str]:
    return {
        **environment(server.folder.parent), "STEELYARD_LANG": lang,
        "STEELYARD_URL": f"http://127.0.0.1:{server.port}",
        "STEELYARD_TOKEN": server.client.headers["Authorization"].removeprefix("Bearer "),
    }  # fmt: skip


def client(server: Server) -> Client:
    return Client.from_environment(settings(server))


def small(name: str, *command: str) -> dict[str, Any]:
    """A workload on the real machine of the smallest pool."""
    return document(name, list(command), namespace="detector-dev", role=HERE)


def test_a_workload_from_its_document_to_its_log_awaited(server: Server) -> None:
    async def story() -> tuple[str, bytes, bytes, list[str]]:
        async with AsyncClient.from_environment(settings(server)) as sdk:
            changes: list[str] = []
            view = await sdk.submit(small("says", "sh", "-c", "echo one; sleep 0.3; echo two"))
            followed = [piece async for piece in sdk.follow_logs(view["id"])]
            done = await sdk.wait(
                view["id"], timeout=60, on_change=lambda now: changes.append(now["phase"])
            )
            read = [piece async for piece in sdk.logs(await sdk.find("says"))]
            return done["outcome"] or "", b"".join(followed), b"".join(read), changes

    outcome, followed, read, changes = asyncio.run(story())
    assert (outcome, followed, read) == ("succeeded", b"one\ntwo\n", b"one\ntwo\n")
    assert changes[-1] == "finished"


def test_a_command_beside_a_member_awaited(server: Server) -> None:
    async def story() -> tuple[dict[Channel, bytes], Any]:
        async with AsyncClient.from_environment(settings(server)) as sdk:
            running = await sdk.execute(await sdk.find("sleeper"), ["sh", "-c", "cat; echo err >&2; exit 7"])
            async with running:
                await running.write(b"in\n")
                await running.end_input()
                said = dict.fromkeys(Channel, b"")
                async for channel, data in running.pieces():
                    said[channel] += data
            with pytest.raises(ApiError) as refused:
                await sdk.execute("wl_0000000000000", ["true"])
            assert refused.value.status == 404
            return said, running.status

    said, status = asyncio.run(story())
    assert (said[Channel.STDOUT], said[Channel.STDERR], status["code"]) == (b"in\n", b"err\n", 7)


def test_changes_are_heard_as_they_happen(server: Server) -> None:
    async def story() -> bool:
        async with AsyncClient.from_environment(settings(server)) as sdk:
            heard = asyncio.Event()
            ids: set[str] = set()

            async def listen() -> None:
                async for change in sdk.events():
                    ids.add(change["id"])
                    heard.set()

            listening = asyncio.create_task(listen())
            while not heard.is_set():
                view = await sdk.submit(small("heard", "true"))
                await sdk.wait(view["id"], timeout=60)
            listening.cancel()
            return bool(ids)

    assert asyncio.run(story())


#: Questions that change nothing, with what they are asked with.
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "me": (), "users": (), "tokens": (), "export": (), "objects": ("Queue",), "object": ("Queue", "main"),
    "object_history": ("Queue", "main"), "workloads": (5,), "queues": (), "quotas": (), "refusals": (),
    "releases": (), "failures": (1, 2), "usage": (1, 2), "review": (1, 2), "audit_leaves": (), "version": (),
    "audit_checkpoint": (), "cycles": (3,), "find": ("sleeper",),
}  # fmt: skip


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_both_clients_are_told_the_same(server: Server, name: str) -> None:
    async def awaited() -> Any:
        async with AsyncClient.from_environment(settings(server)) as sdk:
            return await getattr(sdk, name)(*QUESTIONS[name])

    with client(server) as sdk:
        for _ in range(20):  # the house goes on between two questions
            told = getattr(sdk, name)(*QUESTIONS[name])
            if asyncio.run(awaited()) == told:
                break
        else:
            pytest.fail(f"{name}: never the same")
    assert type(told).__name__ in ("Record", "Table", "dict", "str")


def test_many_workloads_are_gone_through_page_by_page(server: Server) -> None:
    async def names(sdk: AsyncClient) -> list[str]:
        return [row["name"] async for row in sdk.each_workload(q="page-")]

    async def awaited() -> list[str]:
        async with AsyncClient.from_environment(settings(server)) as sdk:
            return await names(sdk)

    with client(server) as sdk:
        held = {"hold": True}
        documents = [small(f"page-{number}", "true") for number in range(230)]
        for one in documents:
            one["spec"] |= held
        assert {one["status"] for one in sdk.submit_many(documents)} == {201}
        listed = [row["name"] for row in sdk.each_workload(q="page-")]
    assert len(set(listed)) == 230
    assert asyncio.run(awaited()) == listed


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does: it may await, and its last expression is what is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    for part in [ast.Module(tree.body, [])] + ([ast.Expression(last.value)] if last else []):
        mode = "eval" if isinstance(part, ast.Expression) else "exec"
        found = eval(compile(part, "cell", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(found):
            found = asyncio.run(found)
    return found if last else None


def test_the_notebook_runs_and_shows_tables(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(server, "zh").items():
        if name.startswith("STEELYARD"):
            monkeypatch.setenv(name, value)
    names: dict[str, Any] = {}
    shown = [run_cell(source, names) for source in cells()]
    pages = [one._repr_html_() for one in shown if hasattr(one, "_repr_html_")]
    assert [285, 328350, 332833500] in shown
    assert len(pages) == 5
    assert all(page.startswith(("<table", "<p>")) for page in pages)
    assert "squares-1000" in pages[2]
    assert "成功" in repr(shown[-3])


def test_the_notebook_is_kept_without_output_and_without_a_secret() -> None:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in found["cells"])
    assert "token=" not in NOTEBOOK.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(("lang", "shown"), [("en", "ADMITTED"), ("zh", "已准入")])
def test_top_shows_what_runs_and_leaves(server: Server, lang: str, shown: str) -> None:
    with Terminal([str(PROGRAM), "top"], settings(server, lang)) as terminal:
        screen = terminal.shows("sleeper")
        assert shown in screen
        assert "this-machine" in screen
        terminal.type("q")
        assert terminal.end() == 0


def test_completion_knows_the_names_of_the_server(server: Server) -> None:
    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            [str(PROGRAM), "__complete", "bash", *words],
            env=settings(server), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    server.wait_for(lambda: offered("exec", "sl") == ["sleeper"])  # one second may be short on a busy machine
    server.wait_for(lambda: offered("list", "--queue", "ma") == ["main"])


def test_what_the_clients_answer_is_yaml_too(server: Server) -> None:
    with client(server) as sdk:
        views = sdk.queues()
    assert yaml.safe_load(yaml.safe_dump(views)) == json.loads(json.dumps(views))
