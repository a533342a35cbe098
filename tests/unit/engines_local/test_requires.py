"""What a member may require: the closed syntax, versions, and what files tell of programs and libraries."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.engines.local import programs, requires
from steelyard.engines.local.requires import Requirement


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sh", Requirement("program", "sh")),
        ("bin:ffmpeg", Requirement("program", "ffmpeg")),
        ("program:/opt/x/run", Requirement("program", "/opt/x/run")),
        ("python:numpy>=2,<3", Requirement("module", "numpy", ((">=", "2"), ("<", "3")))),
        ("module:torch.cuda", Requirement("module", "torch.cuda")),
        ("lib:libcudart.so.12", Requirement("library", "libcudart.so.12")),
        ("class:npu", Requirement("class", "npu")),
    ],
)
def test_an_entry_states_a_requirement(text: str, wanted: Requirement) -> None:
    assert requires.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["python:json; import os", "python:x>=", "python:x~=1", "python:-c", "lib:/etc/passwd", "lib:../x.so",
     "lib:libx", "class:tpu", "image:x", "bin:", "", "bin:a b", "python:x>=1 or 1", "sh;reboot"],
)  # fmt: skip
def test_what_states_none_is_not_taken(text: str) -> None:
    assert requires.parse(text) is None


@given(st.text(max_size=60))
def test_reading_an_entry_never_raises_and_gives_no_shell_anything_to_do(text: str) -> None:
    for found in (requires.parse(text), requires.parse("python:" + text), requires.parse("lib:" + text)):
        assert found is None or not set(str(found.name)) & set(" ;|&$`<>\n\0'\"\\()")


@pytest.mark.parametrize(
    ("version", "bounds", "holds"),
    [
        ("2.1.0", ">=2,<3", True), ("1.26.4", ">=2", False), ("2.0rc1", ">=2", False), ("2.0", "==2", True),
        ("2.0.1", "!=2.0.1", False), ("1.4.5", "~=1.4.2", True), ("1.5.0", "~=1.4.2", False),
        ("2.4.1+cu121", ">=2.4", True), ("10.0", ">9.9", True), ("-", ">=1", False), ("-", "", True),
    ],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version: str, bounds: str, holds: bool) -> None:
    found = requires.parse("python:x" + bounds)
    assert found is not None
    assert requires.satisfies(version, found.bounds) is holds


def test_what_speaks_to_one_class_of_devices_means_that_class() -> None:
    meant = {text: requires.device_class(requires.parse(text) or Requirement("program", "")) for text in (
        "python:torch_npu", "lib:libcudart.so.12", "lib:libascendcl.so", "class:gpu", "python:torch", "sh",
    )}  # fmt: skip
    assert list(meant.values()) == ["npu", "gpu", "npu", "gpu", None, None]


# ---- programs


def elf(path: Path, machine: int, loader: bytes | None = None) -> Path:
    """The smallest file that looks like a program of 64 bits."""
    count = 0 if loader is None else 1
    text = b"\x7fELF\x02\x01\x01" + bytes(9)
    text += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    if loader is not None:
        size = len(loader) + 1
        text += struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, size, size, 1) + loader + b"\0"
    path.write_bytes(text)
    path.chmod(0o755)
    return path


def test_a_program_for_another_processor_can_not_run(tmp_path: Path) -> None:
    path = str(elf(tmp_path / "a", 183))
    assert programs.problem(path, "aarch64") is None
    found = programs.problem(path, "x86_64")
    assert found is None or found[0] == "program-architecture"  # None: the kernel was given a handler for it
    assert os.path.isdir("/proc/sys/fs/binfmt_misc/qemu-aarch64") or found is not None


def test_a_program_whose_loader_is_not_there_can_not_run(tmp_path: Path) -> None:
    path = str(elf(tmp_path / "a", 62, b"/lib/no-such-loader.so.1"))
    assert programs.problem(path, "x86_64") == (
        "interpreter-missing", f"/lib/no-such-loader.so.1 (loader of {path})",
    )  # fmt: skip


def test_a_script_needs_what_its_first_line_names(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/no/such/python -u\n")
    assert programs.problem(str(script)) == ("interpreter-missing", f"/no/such/python (#! of {script})")
    script.write_text("#!/bin/sh\nexit 0\n")
    assert programs.problem(str(script)) is None


def test_a_torn_program_is_left_to_the_kernel(tmp_path: Path) -> None:
    for size in range(0, 121, 7):
        whole = elf(tmp_path / "a", 62, b"/lib/x").read_bytes()
        (tmp_path / "b").write_bytes(whole[:size])
        programs.problem(str(tmp_path / "b"), "x86_64")


def test_a_library_is_found_as_the_loader_would(tmp_path: Path) -> None:
    machine = programs.read_elf(os.path.realpath(sys.executable))
    assert machine is not None
    assert programs.find_library("libc.so.6") is not None
    assert programs.find_library("libnone-of-it.so.9") is None
    elf(tmp_path / "libmine.so.1", machine.machine)
    assert programs.find_library("libmine.so.1", f"/none:{tmp_path}") == f"{tmp_path}/libmine.so.1"
    elf(tmp_path / "libother.so.1", 8)
    assert programs.find_library("libother.so.1", str(tmp_path)) is None


def test_a_torn_cache_of_the_loader_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for text in (b"", b"x" * 100, b"glibc-ld.so.cache1.1" + b"\xff" * 200):
        (tmp_path / "etc/ld.so.cache").write_bytes(text)
        assert programs.find_library("libc.so.6", root=str(tmp_path)) is None
