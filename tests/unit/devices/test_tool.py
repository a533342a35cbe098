"""A vendor's tool is bounded in time, output and rights, whatever it does."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from steelyard.devices.tool import Outcome, find_tool, run_tool
from steelyard.model.health import SignCode


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user can reach: tools are not run as root."""
    path = Path(tempfile.mkdtemp(prefix="steelyard-tools-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def run(folder: Path) -> Callable[..., Outcome]:
    def write_and_run(script: str, *arguments: str, **options: object) -> Outcome:
        return run_tool(str(write(folder, script)), arguments, **options)  # type: ignore[arg-type]

    return write_and_run


def write(folder: Path, script: str, name: str = "some-smi") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def is_gone(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not is_gone(pid):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.01)


def test_output_errors_and_status_come_back(run: Callable[..., Outcome]) -> None:
    found = run('echo "$1"; echo no >&2; exit 3', "a b")
    assert (found.text, found.error, found.status, found.problem) == ("a b\n", "no\n", 3, None)


def test_it_is_given_nothing_of_the_servers_environment(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_TOKEN", "secret")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    names = dict(line.split("=", 1) for line in run("/usr/bin/env").text.splitlines())
    assert set(names) - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "LC_ALL", "HOME", "TMPDIR"}
    assert names["LC_ALL"] == "C"


def test_its_folder_is_its_own_empty_and_gone_afterwards(run: Callable[..., Outcome]) -> None:
    first = run("pwd; ls -A; touch kept").text.split()
    assert len(first) == 1
    assert not os.path.exists(first[0])
    assert run("pwd").text.split() != first


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_it_is_not_run_as_root_but_with_the_groups_of_the_device_files(run: Callable[..., Outcome]) -> None:
    assert run("id -u; id -G", groups=(0, 44)).text.split() == ["65534", "65534", "44"]
    assert run("id -u", keep_user=True).text == "0\n"


def test_a_tool_that_hangs_is_ended_with_all_that_it_started(run: Callable[..., Outcome]) -> None:
    found = run("sleep 600 & echo $!; echo $$; wait", seconds=0.5)
    assert (found.problem, found.status) == (SignCode.TOOL_TIMEOUT, None)
    assert found.micros < 20_000_000
    for pid in found.text.split():
        wait_gone(int(pid))


def test_a_child_that_keeps_the_output_open_holds_nothing_back(run: Callable[..., Outcome]) -> None:
    found = run("sleep 600 & echo $!", seconds=60)
    assert (found.problem, found.status) == (None, 0)
    wait_gone(int(found.text))


def test_a_tool_that_closes_its_output_and_stays_is_ended_too(run: Callable[..., Outcome]) -> None:
    assert run("exec >&- 2>&-; sleep 600", seconds=0.5).problem is SignCode.TOOL_TIMEOUT


def test_endless_output_is_cut_and_counts_as_a_failure(run: Callable[..., Outcome]) -> None:
    found = run("yes", output_limit=100_000)
    assert found.problem is SignCode.TOOL_FAILED
    assert len(found.text) < 300_000


def test_endless_errors_hold_nothing_up(run: Callable[..., Outcome]) -> None:
    found = run("yes | head -c 1000000 >&2; echo done")
    assert (found.text, found.problem) == ("done\n", None)
    assert len(found.error) == 64 * 1024


def test_bytes_that_are_no_text_are_told_as_such(run: Callable[..., Outcome]) -> None:
    assert run("printf '\\377\\376'").text == "��"


def test_what_can_not_be_executed_is_told(folder: Path) -> None:
    broken = write(folder, "")
    broken.write_text("#!/no/such/interpreter\n")
    assert run_tool(str(broken), ()).problem is SignCode.TOOL_FAILED


def test_the_first_folder_that_has_it_wins(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir(mode=0o755)
    write(folder / "two", "")
    found = find_tool("some-smi", [str(folder / "one"), str(folder / "two")])
    assert found.path == os.path.realpath(folder / "two/some-smi")


def test_a_tool_that_is_nowhere_is_missing(folder: Path) -> None:
    assert find_tool("some-smi", [str(folder)]).problem is SignCode.TOOL_MISSING


def test_a_file_that_is_no_program_is_no_tool(folder: Path) -> None:
    write(folder, "").chmod(0o644)
    assert find_tool("some-smi", [str(folder)]).problem is SignCode.TOOL_MISSING


def test_a_tool_that_anybody_may_change_is_not_run(folder: Path) -> None:
    write(folder, "").chmod(0o777)
    assert find_tool("some-smi", [str(folder)]).problem is SignCode.PERMISSION_DENIED
    write(folder, "").chmod(0o755)
    folder.chmod(0o777)
    assert find_tool("some-smi", [str(folder)]).problem is SignCode.PERMISSION_DENIED
