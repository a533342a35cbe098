"""Bad documents in files, given to the command line on a real server: said by a code, nothing changed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import PROGRAM, Server, environment, running

LEAKS = ("Traceback", "site-packages", "yaml.scanner", "yaml.constructor", "httpx")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all of these."""
    with running(tmp_path_factory.mktemp("files") / "data") as made:
        yield made


def command(server: Server, *arguments: str, lang: str = "en") -> subprocess.CompletedProcess[str]:
    """A command with the server's credential."""
    env = environment(server.folder.parent) | {
        "STEELYARD_URL": f"http://127.0.0.1:{server.port}",
        "STEELYARD_TOKEN": server.client.headers["Authorization"].removeprefix("Bearer "),
        "STEELYARD_LANG": lang,
    }
    return subprocess.run([str(PROGRAM), *arguments], env=env, capture_output=True, text=True, timeout=60)


def apply_fails(server: Server, file: Path) -> str:
    """The code; the same in both languages, each with its own sentence, and nothing declared anew."""
    before = server.get("/v1/objects:export")
    said = {lang: command(server, "apply", "-f", str(file), lang=lang) for lang in ("en", "zh")}
    codes = set()
    for done in said.values():
        assert done.returncode == 1, done.stdout
        assert not any(leak in done.stderr for leak in LEAKS), done.stderr
        assert len(done.stderr) < 2000
        found = re.search(r"\[([a-z-]+)\]$", done.stderr, re.MULTILINE)
        assert found, done.stderr
        codes.add(found[1])
    assert said["en"].stderr != said["zh"].stderr
    assert server.get("/v1/objects:export") == before
    assert len(codes) == 1
    return codes.pop()


QUEUE = "kind: Queue\nmetadata: {name: other}\nspec: {cohort: all, owner: platform, limits: [%s]}\n"
DOCUMENTS = {
    "unknown key": (QUEUE % "{class: cpu, nominal: 1, lend: 3}", "field-unknown"),
    "unknown top key": ("kind: Team\nmetadata: {name: x}\nspec: {}\nstatus: {}\n", "field-unknown"),
    "unknown kind": ("kind: Deployment\nmetadata: {name: x}\nspec: {}\n", "kind-unknown"),
    "negative": (QUEUE % "{class: cpu, nominal: -1}", "quantity-invalid"),
    "huge": (QUEUE % "{class: cpu, nominal: 1e400}", "yaml-number-invalid"),
    "nan": (QUEUE % "{class: cpu, nominal: .nan}", "yaml-number-invalid"),
    "infinity": (QUEUE % "{class: cpu, nominal: .inf}", "yaml-number-invalid"),
    "too fine": (QUEUE % "{class: cpu, nominal: 0.0001}", "quantity-too-fine"),
    "a path": ("kind: Team\nmetadata: {name: ../../etc}\nspec: {}\n", "name-invalid"),
    "an escape": ('kind: Team\nmetadata: {name: "\\e[2J"}\nspec: {}\n', "name-invalid"),
    "a long name": ("kind: Team\nmetadata: {name: " + "n" * 100_000 + "}\nspec: {}\n", "name-invalid"),
    "a name of ten megabytes": ("kind: Team\nmetadata: {name: " + "n" * (10 << 20) + "}\nspec: {}\n", ""),
    "a key twice": ("kind: Team\nkind: Team\nmetadata: {name: x}\nspec: {}\n", ""),
    "no yaml": ("kind: [\n\t{", ""),
    "binary": ("kind: \x00\x01", ""),
    "a tag": ("!!python/object/apply:os.system ['true']\n", ""),
    "aliases": ("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{n}: &{n} [{','.join(['*' + p] * 9)}]\n" for p, n in zip("abcdefghi", "bcdefghij", strict=True)
    ), ""),
    "deep": ("[" * 5000 + "]" * 5000, ""),
    "a list": ("- kind: Team\n", ""),
    "missing reference": ("kind: Project\nmetadata: {name: x}\nspec: {team: nobody}\n", "reference-missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_that_is_wrong_is_refused_whole(server: Server, tmp_path: Path, name: str) -> None:
    text, code = DOCUMENTS[name]
    file = tmp_path / "documents.yaml"
    file.write_text(f"kind: Team\nmetadata: {{name: innocent}}\nspec: {{}}\n---\n{text}")
    assert apply_fails(server, file).startswith(code)


@pytest.mark.parametrize("kind", ["missing", "a folder", "no utf-8", "a link to itself"])
def test_a_file_that_can_not_be_read_is_said(server: Server, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "documents.yaml"
    if kind == "a folder":
        file.mkdir()
        (file / "notes.txt").write_text("nothing to apply")
    elif kind == "no utf-8":
        file.write_bytes(b"kind: \xff\xfe\xfa")
    elif kind == "a link to itself":
        file.symlink_to(file)
    apply_fails(server, file)


def test_log_output_of_a_workload_can_not_drive_the_readers_terminal(server: Server) -> None:
    script = r"printf '\033]0;owned\007\033[2Jhello\033[31m\n'"
    found = server.submit("escapes", ["/bin/sh", "-c", script])
    server.wait_for(lambda: _ended(server.get(f"/v1/workloads/{found}")))
    shown = command(server, "list")
    assert "\x1b" not in shown.stdout
    named: dict[str, Any] = server.get(f"/v1/workloads/{found}")
    assert "\x1b" not in command(server, "show", named["id"]).stdout


def _ended(view: dict[str, Any]) -> bool:
    return bool(view["phase"] == "finished")
