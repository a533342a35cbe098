"""The pages people read: links that lead somewhere, commands that exist, tables that are current."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from steelyard.cli import main, table
from steelyard.locale import LANGUAGES
from steelyard.model.reasons import ReasonCode
from steelyard.services import workload_document
from steelyard.services.kinds import Kind
from tools import device_table, lifecycle_table, scenarios

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/en/*.md", "docs/zh/*.md", "benchmarks/README.md", "examples/*/README.md")
    for path in ROOT.glob(pattern)
)
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
#: A call of the program: at the start of a line, after a prompt, a pipe or a semicolon.
_CALL = re.compile(r"(?:^\s*(?:\$ )?|[|;(]\s*)steelyard (?=[a-z-])([^|;>#`]*)")
#: A table of calls: the next call or its explanation stands after several blanks.
_COLUMNS = re.compile(r" {2,}")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


# --- links ----------------------------------------------------------------------------------------
def anchor(heading: str) -> str:
    """The anchor that the common viewers of Markdown give a heading."""
    plain = re.sub(r"[`*]", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def links(page: str) -> Iterator[str]:
    for target in _LINK.findall(_FENCE.sub("", read(page))):
        if not re.match(r"[a-z]+:", target):
            yield unquote(target)


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in _HEADING.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))}


def leads_somewhere(page: str, target: str) -> bool:
    name, _, fragment = target.partition("#")
    path = (ROOT / page).parent / name if name else ROOT / page
    inside = path.resolve().is_relative_to(ROOT) and path.exists()
    return inside and (not fragment or fragment in anchors(path))


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


def test_pages_are_there_in_both_languages_with_the_same_chapters() -> None:
    names = {lang: sorted(path.name for path in (ROOT / "docs" / lang).glob("*.md")) for lang in LANGUAGES}
    assert names["en"] == names["zh"]
    pairs = [("README.md", "README.zh.md"), *((f"docs/en/{n}", f"docs/zh/{n}") for n in names["en"])]
    for english, chinese in pairs:
        levels = [
            re.findall(r"^(#{1,6}) ", _FENCE.sub("", read(page)), re.MULTILINE) for page in (english, chinese)
        ]
        assert levels[0] == levels[1], english
        assert Path(chinese).name in read(english), f"{english} does not lead to {chinese}"
        assert Path(english).name in read(chinese), f"{chinese} does not lead to {english}"


# --- commands -------------------------------------------------------------------------------------
def calls(page: str) -> set[str]:
    """What stands after `steelyard` in fenced blocks and in code within sentences."""
    text = read(page)
    lines = [line for block in _FENCE.findall(text) for line in block.splitlines()[1:-1]]
    lines += re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))
    return {call.strip() for line in lines for part in _COLUMNS.split(line) for call in _CALL.findall(part)}


def test_calls_are_found_wherever_they_stand() -> None:
    assert _CALL.findall("$ steelyard list --limit 4 > x") == ["list --limit 4 "]
    assert _CALL.findall('sed "s|A|B|" f | steelyard submit -f -') == ["submit -f -"]
    assert _CALL.findall("make x; steelyard up") == ["up"]
    assert _CALL.findall("the steelyard package") == []
    assert _CALL.findall("steelyard … , steelyard COMMAND --help") == []


@cache
def help_of(command: str) -> str | None:
    """The help page of a command, None where there is no such command."""
    words = command.split()
    if command and command not in table.COMMANDS and command not in table.GROUPS:
        return None
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        status = main.main([*words, "--help"], {"HOME": "/nonexistent"})
    return written.getvalue() if status == 0 else None


def wrong(call: str) -> str | None:
    """What a call names that the program does not have."""
    words = shlex.split(call)
    if "--" in words:
        words = words[: words.index("--")]
    options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    names = [word for word in words if not word.startswith("-")]
    both = " ".join(names[:2])  # a command may be the first word of others, too
    command = both if names and (names[0] in table.GROUPS or both in table.COMMANDS) else " ".join(names[:1])
    page = help_of(command)
    if page is None:
        return f"no command {command!r}"
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", page))
    unknown = [option for option in options if option not in known]
    return f"{command} has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_named_exists_with_its_options(page: str) -> None:
    assert {call: found for call in sorted(calls(page)) if (found := wrong(call)) is not None} == {}


def test_a_wrong_command_or_option_would_be_found() -> None:
    assert wrong("lsit") == "no command 'lsit'"
    assert wrong("audit nothing x") == "no command 'audit nothing'"
    assert wrong("list --nope") == "list has no --nope"
    assert wrong("audit export /tmp/x --tar -o json") is None


def test_every_command_is_named_somewhere() -> None:
    named = {call for page in PAGES for call in calls(page)}
    missing = [
        name for name in table.COMMANDS if not any(re.match(rf"{name}(?![\w-])", call) for call in named)
    ]
    assert missing == []


# --- what is made from the code ---------------------------------------------------------------------
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_scenarios_name_the_tests_that_there_are(lang: str) -> None:
    page = scenarios.TABLE.page(lang).read_text(encoding="utf-8")
    assert scenarios.TABLE.replaced(page, lang) == page, "run python -m tools.scenarios"
    for scenario in scenarios.scenarios():
        for test in scenarios.tests_of(scenario):
            path, _, name = test.partition("::")
            assert f"def {name}(" in read(path)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lifecycle_table_is_that_of_the_model(lang: str) -> None:
    page = lifecycle_table.TABLE.page(lang).read_text(encoding="utf-8")
    assert lifecycle_table.TABLE.replaced(page, lang) == page, "run python -m tools.lifecycle_table"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_table_of_families_is_that_of_the_catalogue(lang: str) -> None:
    page = device_table.TABLE.page(lang).read_text(encoding="utf-8")
    assert device_table.TABLE.replaced(page, lang) == page, "run python -m tools.device_table"


def test_a_page_without_the_marks_of_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="marks"):
        lifecycle_table.TABLE.replaced("# no table here", "en")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_guide_names_every_kind_and_reason(lang: str) -> None:
    guide = read(f"docs/{lang}/guide.md")
    words = [kind.value for kind in Kind]
    words += [code.value for code in ReasonCode if code is not ReasonCode.PREEMPTED]
    assert [word for word in words if word not in guide] == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_guide_names_every_field_of_a_workload(lang: str) -> None:
    guide = read(f"docs/{lang}/guide.md")
    assert [key for key in sorted(workload_document._KEYS) if f"`{key}`" not in guide] == []
