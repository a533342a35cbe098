"""Completion: every command, option and value that there is, and names where a server answers in time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.cli import candidates as completing
from steelyard.cli import table
from steelyard.cli.candidates import FILES, candidates
from steelyard.cli.completion import SCRIPTS
from tests.service.cli import fake
from tests.service.cli.fake import installed, page
from tests.service.cli.listening import House
from tests.support.terminal import Terminal

NOBODY = {"STEELYARD_URL": "http://127.0.0.1:9", "HOME": "/nonexistent"}
PROGRAM = Path(sys.executable).parent / "steelyard"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    made = House()
    yield made
    made.answering.set()
    made.leave()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much time for names as a busy machine takes."""
    monkeypatch.setattr(completing, "SECONDS", 60.0)


def words(*line: str, environ: dict[str, str] = NOBODY, lang: str = "en") -> list[str]:
    return [value for value, _ in candidates(line, lang, environ)[0]]


def test_the_first_word_is_any_command_or_group() -> None:
    assert set(words("")) == {name.split()[0] for name in table.COMMANDS}
    assert words("qu") == ["queues", "quotas"]
    assert words("-o", "json", "vers") == ["version"]


@pytest.mark.parametrize("name", list(table.COMMANDS))
def test_every_command_is_found_and_offers_its_options(name: str) -> None:
    first, *rest = name.split()
    assert first in words(first)
    assert not rest or rest[0] in words(first, rest[0])
    assert {"--help", "--output", "--lang", "--url"} <= set(words(*name.split(), "-"))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["list", "--phase", "q"], ["queued"]),
        (["list", "--phase", "l"], ["live"]),
        (["list", "--phase=q"], ["--phase=queued"]),
        (["list", "--kind", "b"], ["batch"]),
        (["inventory", "--class", ""], ["gpu", "npu", "other", "cpu", "memory"]),
        (["failures", "--order", ""], ["count", "lost-time", "newest"]),
        (["-o", ""], ["table", "json", "yaml"]),
        (["show", "x", "-o", "y"], ["yaml"]),
        (["--lang", ""], ["en", "zh"]),
        (["up", "--log-level", "w"], ["warning"]),
        (["get", "Qu"], ["Queue", "Quota"]),
        (["get", "qu"], ["queue", "quota"]),
        (["audit", "ch"], ["check", "checkpoint"]),
        (["release", "l"], ["list"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["list", "--limit", ""], []),
        (["list", "one-too-many", ""], []),
        (["no-such-command", ""], []),
    ],
)
def test_values_of_closed_lists_and_words_of_groups(line: list[str], offered: list[str]) -> None:
    assert sorted(words(*line)) == sorted(offered)


@pytest.mark.parametrize("line", [["apply", "-f", ""], ["audit", "verify", ""], ["submit", "--", "python"]])
def test_where_a_file_may_stand_the_shell_is_told(line: list[str]) -> None:
    assert candidates(line, "en", NOBODY) == ([], True)


@pytest.mark.parametrize("line", ["--phase", "--outcome", "--kind"])
def test_every_value_that_is_offered_is_taken(line: str) -> None:
    for value in words("list", line, ""):
        assert installed().run("list", line, value) == 0


@pytest.mark.usefixtures("patient")
def test_names_are_those_that_the_server_knows(house: House) -> None:
    house.fake.on("GET /v1/objects", page({**fake.DOCUMENT, "metadata": {"name": "main"}}))
    environ = house.environ()
    assert words("show", "tr", environ=environ) == ["train-1"]
    assert words("show", "wl_", environ=environ) == ["wl_1", "wl_2"]
    assert words("device", "dv", environ=environ) == ["dv_1", "dv_2"]
    assert words("list", "--queue", "m", environ=environ) == ["main"]
    assert words("get", "queue", "", environ=environ) == ["main"]
    assert words("release", "show", "", environ=environ) == ["rl_1"]
    assert "train-1" in words("release", "", environ=environ)
    url = environ["STEELYARD_URL"]
    assert words("show", "--url", url, "tr") == words("--url", url, "show", "tr") == ["train-1"]
    assert words("show", f"--url={url}", "tr") == ["train-1"]


@pytest.mark.usefixtures("patient")
def test_a_name_that_a_shell_would_read_in_its_own_way_is_not_offered(house: House) -> None:
    names = ["$(id)", "a b", "a;b", "`x`", "-rf", "a\nb", "a\tb", "\x1b[2J", "ok.name-1"]
    house.fake.on("GET /v1/workloads", page(*({**fake.ROW, "name": name} for name in names)))
    assert words("cancel", "", environ=house.environ()) == ["ok.name-1"]
    house.fake.on("GET /v1/workloads", page(fake.ROW, fake.OLD))


def test_a_server_that_hangs_is_not_waited_for(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    house.answering.clear()
    begun = time.monotonic()
    assert completing.run(["bash", "show", ""], house.environ()) == 0
    assert time.monotonic() - begun < 20 * completing.SECONDS
    assert capsys.readouterr() == ("", "")
    house.answering.set()


@pytest.mark.parametrize("line", [[], ["bash"], ["bash", ""], ["zsh", "--lang"], ["fish", "\udcff", ""]])
def test_nothing_that_is_asked_makes_a_message(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert installed().run("__complete", *line, STEELYARD_URL="nonsense") in (0, FILES)
    assert capsys.readouterr().err == ""


def test_a_broken_configuration_makes_no_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "steelyard").mkdir()
    (tmp_path / "steelyard" / "config.toml").write_text("token = [")
    assert installed().run("__complete", "bash", "show", "", XDG_CONFIG_HOME=str(tmp_path)) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("lang", "told"), [("en", "List workloads, the newest first."), ("zh", "列出任务")])
def test_zsh_and_fish_are_told_what_a_word_is(
    lang: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    installed().run("__complete", "fish", "lis", lang=lang)
    assert told in capsys.readouterr().out


def test_another_shell_is_named_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert installed().run("completion", "csh") == 2
    assert "bash | zsh | fish" in capsys.readouterr().err


def test_completing_a_command_loads_nothing_heavy() -> None:
    code = (
        "import sys; from steelyard.cli.main import main; main(['__complete', 'bash', 'li']); "
        "assert not {'typer', 'rich', 'httpx', 'yaml', 'steelyard.client'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


def shell(name: str, script: str, environ: dict[str, str], folder: Path) -> list[str]:
    """What a shell prints, with the installed program first in its path."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here")
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    options = {"bash": ["--norc", "--noprofile"], "fish": ["--no-config"]}.get(name, [])
    own = {**environ, "PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [found, *options, "-c", script], env=own, cwd=folder, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def complete(terminal: Terminal, typed: str, completed: str) -> None:
    """Presses the key; what is completed comes, and the line is taken away."""
    terminal.type(f"{typed}\t")
    terminal.wrote(completed)
    terminal.type("\x15")


def until_named(name: str, script: str, house: House, folder: Path, wanted: list[str]) -> None:
    """Runs a script until it says what is wanted: on a busy machine one second may be short for names."""
    for _ in range(10):
        found = shell(name, script, house.environ(), folder)
        if found == wanted:
            return
    assert found == wanted


BASH = r"""
source <(steelyard completion bash)
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _steelyard "$1" "${!#}"; echo "${COMPREPLY[*]}"; }
complete -p steelyard
try steelyard qu
try steelyard list --phase q
try steelyard list --phase = q
try steelyard list --phase =
"""
NAMES = """
try ./elsewhere/steelyard show tr
try steelyard show nothing-like-it
"""


def test_a_real_bash_completes(house: House, tmp_path: Path) -> None:
    phases = "held queued reserved starting running suspended stopping releasing finished live"
    tried = ["complete -F _steelyard steelyard", "queues quotas", "queued", "queued", phases]
    assert shell("bash", BASH, house.environ(), tmp_path) == tried
    until_named("bash", BASH + NAMES, house, tmp_path, [*tried, "train-1", ""])


#: What is typed before the key, and the rest that it adds.
LINES = {
    "steelyard list --phase=q": "ueued",
    "steelyard inventory --summ": "ary",
    "steelyard audit verify bu": "ndle",
}


def test_a_key_completes_in_a_bash_on_a_terminal(house: House, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "rc").write_text(f"cd {tmp_path}\n" + 'PS1="ready> "\nsource <(steelyard completion bash)\n')
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environ = {**house.environ(), "PATH": path, "HOME": str(tmp_path)}
    bash = shutil.which("bash") or "/bin/bash"
    command = [bash, "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"]
    with Terminal(command, environ, columns=200) as terminal:
        terminal.wrote("ready> ")
        for typed, completed in LINES.items():
            complete(terminal, typed, completed)
        terminal.type("exit\n")
        terminal.end()


def test_a_key_completes_in_a_zsh_on_a_terminal(house: House, tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not here")
    (tmp_path / "bundle").mkdir()
    setup = 'PS1="ready> "\nautoload -U compinit\ncompinit -u -d "$ZDOTDIR/dump"\n'
    (tmp_path / ".zshrc").write_text(f"cd {tmp_path}\n{setup}source <(steelyard completion zsh)\n")
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environ = {**house.environ(), "PATH": path, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    with Terminal([zsh, "-i"], environ, columns=200) as terminal:
        terminal.wrote("ready> ")
        for typed, completed in (LINES | {"steelyard qu\t": "Show the queue tree"}).items():
            complete(terminal, typed, completed)
        terminal.type("exit\n")
        terminal.end()


def test_a_real_fish_completes(house: House, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    script = (
        "steelyard completion fish | source\n"
        "set lines 'steelyard qu' 'steelyard show tr' 'steelyard list --phase=q' 'steelyard audit verify b'\n"
        "for line in $lines\n"
        "complete -C $line | string split -f 1 \\t\nend\ntrue\n"
    )
    wanted = ["queues", "quotas", "train-1", "--phase=queued", "bundle/"]
    until_named("fish", script, house, tmp_path, wanted)


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_script_is_one_that_its_shell_can_read(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not here")
    path = tmp_path / "script"
    path.write_text(SCRIPTS[name], encoding="utf-8")
    subprocess.run([name, "-n", str(path)], check=True, timeout=60)
