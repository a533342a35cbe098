"""YAML files: plain values, bounded, every fault with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client import load_documents, read_documents
from steelyard.model.errors import InvalidError, SteelyardError

NAMES = "kind: Team\nmetadata: {name: a}\n---\n---\n# nothing\n---\nkind: Team\nmetadata: {name: b}\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)
)


def test_several_documents_are_read_and_empty_ones_left_out() -> None:
    assert [document["metadata"]["name"] for document in load_documents(NAMES.encode(), "f")] == ["a", "b"]


def test_words_stay_words() -> None:
    text = "kind: yes\na: on\nb: 2026-01-01\nc: 1:30\nd: 010\ne: true\nf: 1.5\ng: 2\nh: ~\ni: 1e3\nj: 0x10"
    assert load_documents(text.encode(), "f") == [
        {
            "kind": "yes", "a": "on", "b": "2026-01-01", "c": "1:30", "d": "010", "e": True, "f": 1.5, "g": 2,
            "h": None, "i": 1000.0, "j": "0x10",
        }
    ]  # fmt: skip


def test_json_is_read_too() -> None:
    document = {"kind": "Team", "spec": {"a": [1]}}
    assert load_documents(json.dumps(document).encode(), "f") == [document]


def test_an_alias_may_be_used() -> None:
    text = b"kind: x\nspec:\n  a: &a {cpu: 1}\n  b: *a\n  c: {<<: *a, memory: 2}\n"
    spec = load_documents(text, "f")[0]["spec"]
    assert spec == {"a": {"cpu": 1}, "b": {"cpu": 1}, "c": {"cpu": 1, "memory": 2}}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("kind: a\nspec:\n  x: 1\n  y: 2\n  x: 3\n", "yaml-duplicate-key", 5),
        ("kind: [a\n", "yaml-syntax", 2),
        ("kind: a\n\tb: 1\n", "yaml-syntax", 2),
        ("- a\n- b\n", "yaml-not-a-mapping", 1),
        ("just words\n", "yaml-not-a-mapping", 1),
        ("kind: a\n1: b\n", "yaml-key-not-text", 2),
        ("kind: a\n? [x]\n: b\n", "yaml-key-not-text", 2),
        ("kind: a\nb: .nan\n", "yaml-number-invalid", 2),
        ("kind: a\nb: -.inf\n", "yaml-number-invalid", 2),
        ("kind: a\nb: 1e999\n", "yaml-number-invalid", 2),
        (f"kind: a\nb: {'9' * 5000}\n", "yaml-number-invalid", 2),
        ("kind: a\nb: !!python/object/apply:os.system [ls]\n", "yaml-tag-unknown", 2),
        ("kind: a\nb: !!binary aGk=\n", "yaml-tag-unknown", 2),
        ("kind: a\nb: &b [*b]\n", "yaml-alias-of-itself", 2),
        ("kind: a\nb: *c\n", "yaml-syntax", 2),
        ("kind: a\nb: " + "[" * 40 + "]" * 40 + "\n", "yaml-too-deep", 2),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, code: str, line: int) -> None:
    with pytest.raises(InvalidError) as caught:
        load_documents(text.encode(), "f.yaml")
    assert (caught.value.code, caught.value.params["line"]) == (code, line)
    assert caught.value.params["file"] == "f.yaml"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (BOMB.encode(), "yaml-too-many-values"),
        (b"kind: " + b"x" * (10 * 1024 * 1024), "yaml-too-large"),
        (b"a:\n" + b"- 1\n" * 400_001, "yaml-too-many-values"),
        (b"[" * 500, "yaml-too-deep"),
        (b"[" * 200_000, "yaml-syntax"),
        (b"kind: \xff\xfe", "yaml-syntax"),
        (b"kind: \x1b[31m", "yaml-syntax"),
        (b"kind: \x00", "yaml-syntax"),
    ],
)
def test_what_would_cost_too_much_or_is_no_text_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        load_documents(data, "f.yaml")
    assert caught.value.code == code


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        read_documents(str(tmp_path / "none.yaml"))
    assert caught.value.code == "file-unreadable"


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NAMES, encoding="utf-8")
    assert len(read_documents(str(tmp_path / "a.yaml"))) == 2


@given(st.text(alphabet="ab:-[]{}&*!<>|#'\"\n \t?,%@0.\\", max_size=60))
def test_any_text_is_read_or_refused_by_a_code(text: str) -> None:
    code = "yaml-"
    try:
        load_documents(text.encode(), "f")
    except SteelyardError as error:
        code = error.code
    assert code.startswith("yaml-")
