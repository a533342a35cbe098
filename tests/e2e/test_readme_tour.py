"""The README's tour, literally: every command of it in one shell against a real server, in both languages.

What is shown there must come, line by line, but for what differs each time (ids, times, spans, sums of
bytes, drawn bars). A line `…` stands for any lines.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.server import Server, environment

ROOT = Path(__file__).resolve().parents[2]
README = {"en": "README.md", "zh": "README.zh.md"}
TOUR = {"en": ("## A tour", "## What is real"), "zh": ("## 走一遍", "## 哪些是真的")}
ANY = "…"
#: Commands that are meant to fail, by what they contain.
STATUS = {"over-quota.yaml": 3}
#: What a person would have waited for before typing the command.
BEFORE = {
    "steelyard inventory": "until steelyard inventory --class npu -o json | grep -q npu-3; do :; done",
    "steelyard list": "while steelyard list -o json | grep -q '\"starting\"'; do :; done",
}
#: What differs from run to run and from machine to machine.
VARIES = (
    (re.compile(r"\b(wl|rf|sv)_[0-9a-z]{13}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), "TIME"),
    (re.compile(r"steelyard\.local/[0-9a-f]{16}"), "LOG"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"\b\d+(-[A-Z2-7]{4}){4}\b"), "CODE"),
    (re.compile(r"\b\d+(\.\d)?(ms|s)\b|\b\d+m \d\ds\b"), "SPAN"),
    (re.compile(r"\b\d+\.\d{3} (GiB·)?h\b|\d+ MiB"), "SUM"),
    (re.compile(r"\b\d+(?= (audit leaves|files?\b|file\(s\)|checked|条审计记录|个文件|项\)))"), "COUNT"),
    (re.compile(r"(?<=size )\d+|(?<=大小 )\d+|(?<=sqlite )[\d.]+"), "COUNT"),
    (re.compile(r"\b(schema |模式版本 )\d{4}\b"), "SCHEMA"),
    (re.compile(r"(?<=is )(queued|starting)(?=; asked)|(?<=状态：)(排队中|启动中)(?=；申请)"), "PHASE"),
    (re.compile(r"[░█]+"), ""),
    (re.compile(r" {2,}"), " "),
)


@dataclass(frozen=True)
class Step:
    """A command and what the README says comes of it."""

    command: str
    shown: tuple[str, ...]

    @property
    def status(self) -> int:
        return next((status for part, status in STATUS.items() if part in self.command), 0)


def steps(lang: str) -> list[Step]:
    """All commands of the tour, but for `make up`, which the test does by itself."""
    text = (ROOT / README[lang]).read_text(encoding="utf-8")
    begin, end = TOUR[lang]
    tour = text[text.index(begin) : text.index(end)]
    found = []
    for block in re.findall(r"```console\n(.*?)```", tour, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            found.append(Step(command, tuple(shown)))
    return [step for step in found if not step.command.startswith("make ")]


def plain(line: str) -> str:
    for pattern, name in VARIES:
        line = pattern.sub(name, line)
    return line.strip()


def missing(step: Step, said: list[str]) -> list[str]:
    """Lines that are shown and did not come in their place."""
    came = [plain(line) for line in said]
    at, free, found = 0, False, []
    for line in step.shown:
        if line == ANY:
            free = True
            continue
        wanted = plain(line)
        places = [n for n in range(at, len(came) if free else min(at + 1, len(came))) if came[n] == wanted]
        if places:
            at, free = places[0] + 1, False
        else:
            found.append(line)
    if not free and came[at:]:
        found.append(f"nothing more, but there came: {came[at]}")
    return found


def run(tour: list[Step], server: Server, lang: str, folder: Path) -> Iterator[tuple[Step, int, list[str]]]:
    """Each step with its exit status and what it said; all in one shell, one after the other."""
    script = []
    for number, step in enumerate(tour):
        script += [wait for start, wait in BEFORE.items() if step.command.startswith(start)]
        script += [f"{{ {step.command}", f"}} 2>&1; printf '\\n@@{number} %d\\n' $?"]
    text = "\n".join(script)
    for old, new in (
        ("/tmp/tour-bundle", str(folder / "bundle")),
        ("/tmp/tour", str(server.folder)),
        ("$PWD/.venv/bin", str(Path(sys.executable).parent)),
    ):
        text = text.replace(old, new)
    env = {**environment(folder), "STEELYARD_URL": f"http://127.0.0.1:{server.port}", "COLUMNS": "400"}
    done = subprocess.run(
        ["bash"], input=text, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    rest = done.stdout.replace(str(folder / "bundle"), "/tmp/tour-bundle").replace(str(server.port), "7580")
    rest = rest.replace(str(server.folder), "/tmp/tour")
    for number, step in enumerate(tour):
        said, mark, rest = rest.partition(f"\n@@{number} ")
        assert mark, f"the shell ended before: {step.command}\n{said}\n{done.stderr}"
        status, _, rest = rest.partition("\n")
        yield step, int(status), said.rstrip("\n").split("\n") if said.strip() else []


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_tour_of_the_readme_comes_true(lang: str, tmp_path: Path) -> None:
    tour = steps(lang)
    assert len(tour) >= 18
    server = Server(tmp_path / "data")
    try:
        server.launch()
        server.wait_ready()
        wrong = {
            step.command: (status, lacks, said)
            for step, status, said in run(tour, server, lang, tmp_path)
            if (lacks := missing(step, said)) or status != step.status
        }
        assert wrong == {}
    finally:
        server.close()


def test_both_languages_tell_the_same_tour() -> None:
    commands = {lang: [step.command for step in steps(lang)] for lang in README}
    same = [
        command.replace("LANG=zh", "LANG=en").replace("--lang zh", "--lang en") for command in commands["zh"]
    ]
    assert same == commands["en"]


def test_lines_are_compared_in_order_and_without_gaps() -> None:
    assert missing(Step("x", ("a", ANY, "c")), ["a", "b", "c"]) == []
    assert missing(Step("x", ("a", "c")), ["a", "b", "c"]) == ["c", "nothing more, but there came: b"]
    assert missing(Step("x", ("a",)), ["a", "b"]) == ["nothing more, but there came: b"]
    assert missing(Step("x", (ANY, "took 3ms")), ["z", "took 12.5s"]) == []
