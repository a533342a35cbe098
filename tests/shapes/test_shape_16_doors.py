"""Shape 16: store, services and loops are synchronous, only the doors are not; server and runner are
separate, and speak a versioned protocol."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import steelyard
from steelyard.engines.local import protocol
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import EngineUnavailable
from tests.support.local_engine import end_everything, make_local_engine, runner_pid, sh, wait_for

SOURCE = Path(steelyard.__file__).parent
#: Doors answer many at once; the one that starts them waits for them. The SDK has a form for programs that
#: wait for many answers at once themselves; nothing of the server is in it.
ASYNC = {"api", "console", "gateway", "bootstrap.py", "client"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """A local engine with its runner."""
    made = make_local_engine(tmp_path)
    yield made
    made.close()


def test_only_the_doors_are_asynchronous() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            if isinstance(node, ast.AsyncFunctionDef) or modules & {"asyncio", "anyio"}:
                found.add(path.relative_to(SOURCE).parts[0])
    assert found <= ASYNC


def test_no_asynchronous_function_of_a_door_opens_the_store_itself() -> None:
    """What reads or writes runs in the bounded pool of threads."""
    found = []
    for path in (SOURCE / "api").rglob("*.py"):
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(outer, ast.AsyncFunctionDef):
                continue
            calls = [node for node in ast.walk(outer) if isinstance(node, ast.Call)]
            for node in calls:
                called = node.func
                if isinstance(called, ast.Attribute) and called.attr in ("read", "write", "connect"):
                    owner = ast.unparse(called.value)
                    if "store" in owner or "writer" in owner:
                        found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_the_protocol_has_a_version_that_this_server_adopts() -> None:
    assert protocol.VERSION in protocol.ADOPTABLE
    assert max(protocol.ADOPTABLE) == protocol.VERSION


def test_a_newer_server_adopts_a_runner_of_an_older_version(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.start([sh("at_0000000000001", "sleep 0.3; exit 3")])
    engine.close()
    monkeypatch.setattr(protocol, "ADOPTABLE", (protocol.VERSION, protocol.VERSION + 1))
    newer = make_local_engine(tmp_path)
    seen = wait_for(newer, "mb_0000000000001", lambda member: member.exit_code is not None)
    assert seen.exit_code == 3
    newer.close()


def test_a_runner_that_speaks_none_of_the_servers_versions_is_not_adopted(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.start([sh("at_0000000000001", "sleep 600")])
    wait_for(engine, "mb_0000000000001", lambda member: member.started_at is not None)
    monkeypatch.setattr(protocol, "ADOPTABLE", (protocol.VERSION + 1,))
    strange = make_local_engine(tmp_path)
    with pytest.raises(EngineUnavailable):
        strange.start([sh("at_0000000000002", "true")])
    assert [member.member_id for member in strange.observe(None).members] == ["mb_0000000000001"]
    strange.close()
    before = runner_pid(tmp_path)
    assert engine.observe(None).complete, "the runner goes on for those it understands"
    assert runner_pid(tmp_path) == before
    end_everything(engine)
