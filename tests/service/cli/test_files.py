"""Files of documents: folders, wrong doors, errors that name the document, differences that fit a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.cli.fake import RESULT, installed

TEAM = "kind: Team\nmetadata: {name: red}\nspec: {}\n"
QUEUE = "kind: Queue\nmetadata: {name: main}\nspec: {cohrt: all}\n"
WORKLOAD = "kind: Workload\nmetadata: {name: train, namespace: lab}\nspec: {}\n"
WRONG = {"path": "spec.cohrt", "near": "cohort", "document": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(TEAM)
    (tmp_path / "b.yml").write_text(f"{TEAM}---\n{QUEUE}")
    (tmp_path / "c.yaml").write_text(WORKLOAD)
    (tmp_path / "notes.txt").write_text("not: [read")
    return tmp_path


def test_an_error_names_file_document_path_and_the_key_that_was_meant(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed().problem("POST /v1/objects:apply", 400, "field-unknown", params=WRONG)
    files = ("-f", str(folder / "a.yaml"), "-f", str(folder / "b.yml"))
    for command in ("apply", "diff"):
        assert fake.run(command, *files) == 1
        assert capsys.readouterr().err.splitlines() == [
            "Error: spec.cohrt is not a known key. Did you mean cohort? [field-unknown]",
            f"  in {folder / 'b.yml'}, document 2: Queue/main",
        ]


def test_an_error_that_names_an_object_leads_to_its_document(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = {"kind": "Queue", "name": "main", "path": "spec.cohort", "target_kind": "Cohort", "target": "x"}
    fake = installed().problem("POST /v1/objects:apply", 400, "reference-missing", params=params)
    assert fake.run("apply", "-f", str(folder)) == 1
    assert f"in {folder / 'b.yml'}, document 2: Queue/main" in capsys.readouterr().err


def test_an_error_of_a_submit_names_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed().problem("POST /v1/workloads", 400, "field-missing", params={"path": "spec.roles"})
    assert fake.run("submit", "-f", str(folder / "c.yaml")) == 1
    assert f"in {folder / 'c.yaml'}, document 1: Workload/train" in capsys.readouterr().err


def test_a_folder_is_applied_whole_but_for_workloads_which_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed()
    assert fake.run("apply", "-f", str(folder)) == 0
    assert [document["kind"] for document in fake.body()["documents"]] == ["Team", "Team", "Queue"]
    assert f"{folder / 'c.yaml'}: workload train is left out" in capsys.readouterr().err


def test_a_workload_is_not_applied_but_led_to_submit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed()
    path = str(folder / "c.yaml")
    assert fake.run("apply", "-f", path) == 2
    assert f"`steelyard submit -f {path}`" in capsys.readouterr().err
    assert fake.seen == []


def test_what_is_declared_is_not_submitted_but_led_to_apply(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed()
    path = str(folder / "a.yaml")
    assert fake.run("submit", "-f", path) == 2
    assert f"`steelyard apply -f {path}`" in capsys.readouterr().err
    assert fake.seen == []


def test_a_nested_value_of_a_difference_takes_one_line_and_is_cut(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = [{"name": f"group-{number}", "count": number} for number in range(20)]
    change = {"path": "spec.simulation.nodes", "before": None, "after": after}
    fake = installed().on("POST /v1/objects:apply", {"results": [{**RESULT, "diff": [change]}]})
    path = str(folder / "a.yaml")
    assert fake.run("apply", "-f", path) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "nodes" in line)
    assert line.endswith("…")
    assert len(line) < 120
    assert "\\n" not in line
    assert fake.run("apply", "-f", path, "-o", "json") == 0
    assert "group-19" in capsys.readouterr().out
