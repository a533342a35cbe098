"""Operator commands: what they start, with which arguments; nothing of it is loaded before."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.cli import operators, table
from steelyard.cli.instants import instant
from steelyard.model.errors import InvalidError
from tests.service.cli.fake import Fake, installed

CALLS: list[tuple[Any, ...]] = []


def started(*arguments: Any) -> int:
    """Stands for what an operator command starts."""
    CALLS.append(arguments)
    return 7


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    CALLS.clear()
    for name in operators.TARGETS:
        monkeypatch.setitem(operators.TARGETS, name, f"{__name__}:started")
    return CALLS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("up", (Path("/d"), "127.0.0.1", 7580, "zh", "text", "info")),
        ("up --data /x --host ::1 --port 1 --log-format json --log-level debug",
         (Path("/x"), "::1", 1, "zh", "json", "debug")),
        ("serve --database postgresql://h/n",
         ("postgresql://h/n", Path("/d"), "127.0.0.1", 7580, "text", "info")),
        ("demo", (Path("demo-out"), False, "zh")),
        ("demo --out /o --keep", (Path("/o"), True, "zh")),
        ("reset-password ann --data /x", ("ann", Path("/x"), "zh")),
        ("reset-password ann", ("ann", Path("/d"), "zh")),
        ("audit rotate-key", (Path("/d"), None, False, "zh")),
        ("audit rotate-key --lost --database postgresql://h/n",
         (Path("/d"), "postgresql://h/n", True, "zh")),
        ("backup /f --with-log-key", (Path("/f"), Path("/d"), None, True, "zh")),
        ("backup verify /f --key ab", (Path("/f"), "ab", "zh")),
        ("restore /f --database postgresql://h/n --end-tokens",
         (Path("/f"), Path("/d"), "postgresql://h/n", None, True, "zh")),
        ("upgrade --check", (Path("/d"), None, True, "zh")),
        ("audit verify /b", (["/b", "--lang", "zh"],)),
        (
            "audit verify /b --key f0 --anchor 5-AAAA -o json",
            (["/b", "--lang", "zh", "--key", "f0", "--anchor", "5-AAAA", "--json"],),
        ),
    ],
)
def test_operator_commands_call_what_the_table_names(
    line: str, expected: tuple[Any, ...], calls: list[tuple[Any, ...]]
) -> None:
    assert installed().run(*line.split(), lang="zh", STEELYARD_DATA="/d") == 7
    assert calls == [expected]


def test_a_trial_is_given_the_session_s_client_and_a_way_to_open_another(
    calls: list[tuple[Any, ...]],
) -> None:
    line = "poc run s1 --plan /p.yaml --out /o -o json"
    assert installed().run(*line.split(), lang="zh", STEELYARD_DATA="/d") == 7
    client, connect, *rest = calls[0]
    assert rest == ["s1", Path("/p.yaml"), Path("/o"), "zh", True]
    with connect() as another:
        assert another is not client


def test_the_table_names_what_there_is() -> None:
    for target in operators.TARGETS.values():
        assert callable(table.load(target))


def test_serving_needs_a_database(calls: list[tuple[Any, ...]]) -> None:
    assert installed().run("serve") == 2
    assert calls == []


def test_a_restore_does_not_go_into_a_used_folder_that_nobody_named(
    calls: list[tuple[Any, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.key").touch()
    for more in ((), ("--database", "postgresql://h/n")):
        assert installed().run("restore", "/f", *more, lang="en", STEELYARD_DATA=str(tmp_path)) == 2
        assert "--data FOLDER" in capsys.readouterr().err
    assert calls == []
    assert installed().run("restore", "/f", "--data", str(tmp_path)) == 7


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"STEELYARD_DATA": "/d"}, "/d"),
        ({"XDG_DATA_HOME": "/x"}, "/x/steelyard"),
        ({"HOME": "/h"}, "/h/.local/share/steelyard"),
    ],
)
def test_the_data_folder_is_the_user_s(
    environ: dict[str, str], folder: str, calls: list[tuple[Any, ...]]
) -> None:
    installed().run("up", **environ)
    assert calls[0][0] == Path(folder)


def bundle(*members: tuple[str, bytes | str]) -> bytes:
    """A tar of files (bytes) and links (text)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def with_bundle(data: bytes) -> Fake:
    return installed().on("POST /v1/audit/bundle", httpx.Response(200, content=data))


def test_a_bundle_is_unpacked_into_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = with_bundle(bundle(("manifest.json", b"{}"), ("audit/leaves.jsonl", b"\n")))
    folder = tmp_path / "out"
    assert fake.run("audit", "export", str(folder), "--from", "2026-01-01") == 0
    assert (folder / "audit" / "leaves.jsonl").read_bytes() == b"\n"
    assert f"steelyard audit verify {folder}" in capsys.readouterr().out
    assert fake.body() == {"from": 1_767_225_600_000_000}
    assert fake.run("audit", "export", str(folder)) == 1


def test_a_bundle_may_stay_a_tar_file(tmp_path: Path) -> None:
    data = bundle(("a", b"x"))
    assert with_bundle(data).run("audit", "export", str(tmp_path / "b.tar"), "--tar") == 0
    assert (tmp_path / "b.tar").read_bytes() == data


@pytest.mark.parametrize(
    "members",
    [[("../evil", b"x")], [("/tmp/evil", b"x")], [("a/../../evil", b"x")], [("link", "/etc/passwd")]],
)
def test_a_bundle_can_not_write_outside_its_folder(
    members: list[tuple[str, bytes | str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_bundle(bundle(*members)).run("audit", "export", str(tmp_path / "a" / "b")) == 1
    assert "[bundle-unsafe]" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*evil*"))


def test_what_is_no_tar_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert with_bundle(b"<html>").run("audit", "export", str(tmp_path / "b")) == 1
    assert "[bundle-unsafe]" in capsys.readouterr().err


def test_a_difference_on_replay_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed().on("POST /v1/cycles/cy_1/replay", {"same": False, "differences": ["placements[0]"]})
    assert fake.run("replay", "cy_1") == 1
    assert "- placements[0]" in capsys.readouterr().out


def test_checks_that_do_not_hold_are_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"id": "CK3", "ok": False, "checked": 2, "findings": ["dv_1: 2000 > 1000"]}
    fake = installed().on("POST /v1/audit/checks", {"ok": False, "checks": [broken]})
    assert fake.run("audit", "check") == 1
    assert "✗ CK3" in capsys.readouterr().out
    full = {"id": "disk", "ok": False, "code": "disk-low", "params": {"free_mib": 3}, "text": "?"}
    assert installed().on("GET /v1/doctor", {"checks": [full]}).run("doctor") == 1
    assert "✗ disk" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01", 1_767_225_600_000_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000_000),
        ("2026-01-01T08:00:00+08:00", 1_767_225_600_000_000),
        ("2026-01-01T00:00:00.000001Z", 1_767_225_600_000_001),
        ("1767225600000000", 1_767_225_600_000_000),
        (None, None),
    ],
)
def test_instants_are_read_exactly(text: str | None, expected: int | None) -> None:
    assert instant(text, "--from") == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "-5", "1e9"])
def test_what_is_no_instant_is_refused_with_the_option_s_name(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        instant(text, "--from")
    assert caught.value.params["name"] == "--from"
