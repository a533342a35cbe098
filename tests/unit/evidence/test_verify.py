"""The standalone verifier: sound bundles pass and say what they can't prove; every mutant fails by name."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.evidence import bundle, verify
from steelyard.evidence.checkpoint import Checkpoint, short_code
from steelyard.evidence.keys import fingerprint
from steelyard.evidence.leaf import BLIND_PREFIX, LeafDraft
from tests.unit.evidence.samples import (
    KEY,
    LOOP,
    ORIGIN,
    SECURITY,
    WITNESS,
    SampleLog,
    complete_audit,
    complete_bundle,
    rotated_bundle,
    sealed,
    stream_bundle,
    witnessed_bundle,
    work,
    write,
)

Files = dict[str, bytes]
FINGERPRINT = fingerprint(KEY.public_key)
WHOLE = complete_bundle()
PART = stream_bundle()


def check(files: Files, tmp_path: Path, *keys: str, anchors: tuple[str, ...] = ()) -> verify.Report:
    return verify.check_bundle(str(write(files, tmp_path)), keys, anchors)


def codes(report: verify.Report) -> set[str]:
    return {note.code for note in report.notes}


def found(report: verify.Report) -> set[tuple[str, str]]:
    return {(problem.file, problem.code) for problem in report.problems}


# --- sound bundles ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [complete_bundle, stream_bundle, rotated_bundle, witnessed_bundle], ids=lambda make: make.__name__
)
def test_sound_bundles_pass(make: Callable[[], Files], tmp_path: Path) -> None:
    report = check(make(), tmp_path)
    assert report.problems == []
    assert "key-not-known" in codes(report)


def test_without_a_witness_it_is_self_attested(tmp_path: Path) -> None:
    assert "self-attested" in codes(check(WHOLE, tmp_path))


def test_a_cosigned_log_is_not_self_attested_and_the_witness_is_named(tmp_path: Path) -> None:
    files = witnessed_bundle()
    assert {"witnessed", "self-attested"} & codes(check(files, tmp_path)) == {"witnessed"}
    known = check(files, tmp_path, FINGERPRINT, fingerprint(WITNESS.public_key))
    assert "witnessed-known" in codes(known)


def test_the_right_key_is_known_and_a_wrong_one_fails(tmp_path: Path) -> None:
    assert "key-known" in codes(check(WHOLE, tmp_path, FINGERPRINT))
    assert found(check(WHOLE, tmp_path, "0" * 64)) == {("manifest.dsse.json", "key-mismatch")}


def test_a_key_known_before_a_change_of_keys_leads_to_the_new_one(tmp_path: Path) -> None:
    report = check(rotated_bundle(), tmp_path, FINGERPRINT)
    assert report.problems == []
    assert {"key-known", "rotated", "restored"} <= codes(report)


def test_blindness_that_the_log_admits_is_said(tmp_path: Path) -> None:
    log = SampleLog()
    work(log)
    log.add((LOOP, LeafDraft(BLIND_PREFIX + "collector-lost", "cluster", "cl_1")))
    log.add((LOOP, LeafDraft("workload.phase", "workload", "wl_1")), ts=1)
    report = check(sealed(complete_audit(log, 2)), tmp_path)
    assert report.problems == []
    assert {"blind", "clock-back"} <= codes(report)


def test_a_clock_that_stepped_back_is_counted_as_blindness(tmp_path: Path) -> None:
    log = SampleLog()
    work(log)
    for _ in range(2):
        log.add((LOOP, LeafDraft(BLIND_PREFIX + "clock-stepped", "log", "log")))
    report = check(sealed(complete_audit(log, 2)), tmp_path)
    said = [note.params for note in report.notes if note.code == "blind"]
    assert [(note["action"], note["count"]) for note in said] == [("blind.clock-stepped", 2)]


def test_a_stream_is_said_to_be_complete_and_nothing_more(tmp_path: Path) -> None:
    assert {"streams", "complete"} & codes(check(PART, tmp_path)) == {"streams"}


def test_sign_offs_over_this_manifest_are_named(tmp_path: Path) -> None:
    path, envelope = bundle.sign_off(WHOLE["manifest.json"], "security", "accept-with-pending", SECURITY)
    report = check({**WHOLE, path: envelope}, tmp_path)
    assert report.problems == []
    assert "signed-off" in codes(report)


def test_a_bundle_without_log_and_usage_says_so(tmp_path: Path) -> None:
    report = check(bundle.assemble_bundle({"a": b"b"}, {}, KEY), tmp_path)
    assert report.problems == []
    assert {"no-log", "no-usage"} <= codes(report)


def test_a_manifest_signed_by_another_key_than_the_logs_is_said(tmp_path: Path) -> None:
    log = SampleLog()
    work(log)
    report = check(sealed(complete_audit(log, 2), SECURITY), tmp_path)
    assert report.problems == []
    assert "other-signer" in codes(report)


def test_an_anchor_kept_on_paper_is_checked(tmp_path: Path) -> None:
    log = SampleLog()
    work(log)
    files = sealed(complete_audit(log, 2))
    assert "anchor" in codes(check(files, tmp_path, anchors=(short_code(log.head(9)),)))
    other = short_code(Checkpoint(ORIGIN, 9, bytes(32)))
    assert found(check(files, tmp_path, anchors=(other,))) == {("audit/end.ckpt", "anchor-differs")}
    later = short_code(Checkpoint(ORIGIN, 99, bytes(32)))
    assert found(check(files, tmp_path, anchors=(later,))) == {("audit/end.ckpt", "anchor-short")}


# --- the file system --------------------------------------------------------------------------------------


def test_links_are_refused_though_their_target_is_right(tmp_path: Path) -> None:
    folder = write(WHOLE, tmp_path / "bundle")
    target = tmp_path / "report.html"
    (folder / "report.html").rename(target)
    (folder / "report.html").symlink_to(target)
    assert ("report.html", "symlink") in found(verify.check_bundle(str(folder)))


def test_a_linked_folder_is_not_followed(tmp_path: Path) -> None:
    folder = write(WHOLE, tmp_path / "bundle")
    (folder / "plan").rename(tmp_path / "plan")
    (folder / "plan").symlink_to(tmp_path / "plan")
    assert {("plan", "symlink"), ("plan/plan.json", "missing")} <= found(verify.check_bundle(str(folder)))


def test_pipes_and_empty_folders_are_refused(tmp_path: Path) -> None:
    write(WHOLE, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    assert found(verify.check_bundle(str(tmp_path))) == {("pipe", "not-a-file"), ("empty", "empty-folder")}


def test_names_with_control_characters_are_shown_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(WHOLE, tmp_path)
    (tmp_path / "a\x1b[31m\n").write_bytes(b"")
    assert verify.main([str(tmp_path), "--lang", "en"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a\\x1b[31m\\n: not listed" in out


# --- the program --------------------------------------------------------------------------------------------


def run(program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The verifier alone: no site packages, no environment."""
    command = [sys.executable, "-I", "-S", str(program), *args]
    return subprocess.run(command, capture_output=True, text=True, env={}, cwd="/", timeout=60, check=False)


def test_it_runs_alone_on_a_copy_elsewhere(tmp_path: Path) -> None:
    write(WHOLE, tmp_path / "made")
    copy = Path(shutil.copytree(tmp_path / "made", tmp_path / "copy"))
    shutil.rmtree(tmp_path / "made")
    done = run(copy / "verify" / "verify.py", str(copy), "--lang", "en")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OK")
    assert "self-attested" in done.stdout
    assert "key not known" in done.stdout
    assert run(copy / "verify" / "verify.py", str(copy), "--key", FINGERPRINT).returncode == 0


def test_a_flip_in_the_verifier_of_the_bundle_is_found_by_a_copy_outside(tmp_path: Path) -> None:
    folder = write(WHOLE, tmp_path / "bundle")
    outside = tmp_path / "trusted.py"
    shutil.copy(folder / "verify" / "verify.py", outside)
    content = bytearray((folder / "verify" / "verify.py").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "verify" / "verify.py").write_bytes(content)
    done = run(outside, str(folder), "--lang", "en")
    assert done.returncode == 1
    assert "verify/verify.py: its content is not what the manifest lists" in done.stdout


def test_it_speaks_chinese_and_json(tmp_path: Path) -> None:
    folder = write({**WHOLE, "report.html": b""}, tmp_path)
    program = folder / "verify" / "verify.py"
    chinese = run(program, str(folder), "--lang", "zh")
    assert chinese.stdout.startswith("不通过")
    value = json.loads(run(program, str(folder), "--json").stdout)
    assert value["ok"] is False
    assert [(one["file"], one["code"]) for one in value["problems"]] == [("report.html", "size")]
    assert (value["log_size"], value["complete"], value["self_attested"], value["key_known"]) == (
        *(31, True, True, False),
    )


@pytest.mark.parametrize("args", [[], ["/no/such/folder"], [".", "--key", "abc"], [".", "--anchor", "1-x"]])
def test_wrong_usage_has_a_status_of_its_own(args: list[str]) -> None:
    assert run(Path(verify.__file__), *args).returncode == 2


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["/no/such/folder"], "没有目录 /no/such/folder。"),
        ([".", "--key", "abc"], "--key 应为 64 位十六进制数，而不是 abc。"),
        ([".", "--anchor", "1-\x1b"], r"--anchor 应为短码，形如 SIZE-XXXX-XXXX-XXXX-XXXX，而不是 1-\x1b。"),
    ],
)
def test_wrong_usage_is_told_in_the_reader_s_language(args: list[str], told: str) -> None:
    assert run(Path(verify.__file__), *args, "--lang", "zh").stderr.strip() == told


def test_it_imports_nothing_but_the_standard_library_and_nothing_that_reaches_out() -> None:
    tree = ast.parse(Path(verify.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= {
        *("__future__", "argparse", "base64", "collections", "hashlib", "io", "json", "os", "re", "stat"),
        *("sys", "time", "typing", "unicodedata"),
    }
    called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__"}


def test_every_sentence_is_there_in_both_languages_with_the_same_fields() -> None:
    for code, (english, chinese) in verify.TEXTS.items():
        assert english, code
        fields = [sorted(part.split("}")[0] for part in text.split("{")[1:]) for text in (english, chinese)]
        assert fields[0] == fields[1], code


def test_every_code_that_is_raised_has_a_sentence() -> None:
    tree = ast.parse(Path(verify.__file__).read_text(encoding="utf-8"))
    used = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        place = {"Wrong": 1, "problem": 1, "note": 0}.get(name)
        if place is not None and len(call.args) > place and isinstance(call.args[place], ast.Constant):
            used.add(call.args[place].value)  # type: ignore[attr-defined]
    assert len(used) > 50
    assert used <= set(verify.TEXTS)
