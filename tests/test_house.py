"""Rules of the house that no linter knows: file length, late imports, addresses, requirement ids, rooms."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools import requirements

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400
# A file that has to be longer says why in a line of its docstring that begins with these words.
REASON = "Long because"
# Extras are imported where they are used; these tables alone name modules of ours to load when called.
LATE_IMPORTS_ALLOWED = {"src/steelyard/cli/operators.py"}

# Put together from parts, so that this file does not find itself.
MACHINE_PATHS = ["/wo" + "rk/main", "/wo" + "rk/shared", "/wo" + "rk/.", "/tmp/bash" + "_jobs"]
REGISTRY_HOSTS = [
    "py" + "pi.org",
    "pythonhos" + "ted.org",
    "registry.npm" + "js.org",
    "crat" + "es.io",
    "proxy.go" + "lang.org",
    "repo.mav" + "en.apache.org",
    "repo1.mav" + "en.org",
    "deb.deb" + "ian.org",
    "anaconda" + ".org",
]


def tracked() -> list[str]:
    """Paths of all files under version control, or of all files where there is no repository."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def python_files(*folders: str) -> list[str]:
    return [name for name in tracked() if name.endswith(".py") and name.startswith(folders)]


def parse(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), filename=name)


def test_a_long_file_gives_its_reason() -> None:
    silent = {}
    for name in python_files("src/", "tests/", "tools/", "benchmarks/", "examples/"):
        lines = (ROOT / name).read_text(encoding="utf-8").count("\n")
        docstring = ast.get_docstring(parse(name)) or ""
        if lines > MAX_LINES and not re.search(rf"^{REASON}", docstring, re.MULTILINE):
            silent[name] = lines
    assert not silent, f"over {MAX_LINES} lines, and no docstring line begins with '{REASON}': {silent}"


def test_every_module_of_ours_says_what_it_knows() -> None:
    # An empty file knows nothing.
    trees = {name: parse(name) for name in python_files("src/", "tools/")}
    assert [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


def late_imports(tree: ast.Module) -> list[int]:
    """Lines inside functions that import something of ours."""
    found = []
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.ImportFrom):
            ours = node.level > 0 or (node.module or "").split(".")[0] == "steelyard"
        elif isinstance(node, ast.Import):
            ours = any(alias.name.split(".")[0] == "steelyard" for alias in node.names)
        else:
            continue
        if ours:
            found.append(node.lineno)
    return sorted(set(found))


def test_late_imports_are_found_where_they_hide() -> None:
    hidden = "import steelyard\ndef f():\n  import json\n  def g():\n    from steelyard import model\n"
    assert late_imports(ast.parse(hidden)) == [5]
    assert late_imports(ast.parse("async def f():\n  from . import x\n")) == [2]


def test_nothing_of_ours_is_imported_inside_a_function() -> None:
    found = {
        name: lines
        for name in python_files("src/")
        if name not in LATE_IMPORTS_ALLOWED and (lines := late_imports(parse(name)))
    }
    assert not found


@pytest.mark.parametrize("kind", ["machine paths", "registry hosts"])
def test_no_file_names_a_machine_or_a_registry(kind: str) -> None:
    words = MACHINE_PATHS if kind == "machine paths" else REGISTRY_HOSTS
    found = []
    for name in tracked():
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {word}" for word in words if word in text]
    assert found == []


def test_every_room_stands_in_the_import_rules() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    ruled = {
        module.split(".")[1]
        for contract in contracts
        if contract["type"] == "may_import_only"
        for module in contract["source_modules"]
    }
    rooms = {name.split("/")[2] for name in python_files("src/steelyard/") if name.count("/") > 2}
    assert rooms - ruled - {"bootstrap"} == set()


def test_markers_name_requirements_that_exist(requirement_claims: dict[str, list[str]]) -> None:
    assert requirements.unknown_ids(requirement_claims, requirements.read_rows()) == []


def test_the_requirements_are_complete() -> None:
    rows = requirements.read_rows()
    assert len({row.id for row in rows}) == len(rows) == 249
    assert sum(row.origin == "S" for row in rows) == 187
    assert {row.origin for row in rows} == {"S", "D"}
    assert all(row.statement and row.zh and row.proof for row in rows)


def test_the_page_of_requirements_shows_claimed_and_open_rows() -> None:
    rows = [row for row in requirements.read_rows() if row.id in {"A1", "A2"}]
    page = requirements.render(rows, {"A2": ["tests/unit/test_x.py::test_y"]})
    assert "1 of 2 rows are claimed" in page
    assert re.search(r"^\| A1 .*\*\*open\*\* \|$", page, re.MULTILINE)
    assert re.search(r"^\| A2 .*`unit/test_x.py::test_y` \|$", page, re.MULTILINE)
