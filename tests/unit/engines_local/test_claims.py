"""Claims last through a power failure, whichever of their files the kernel had not written yet."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.engines.local import claims as module
from steelyard.engines.local.claims import Claims
from steelyard.engines.local.files import read_json
from steelyard.engines.local.paths import Layout

#: A member's notes that are not there.
NOWHERE = "/proc/none"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(str(tmp_path))
    made.make()
    return made


def opened(layout: Layout, boot: str) -> Claims:
    claims = Claims(layout, boot)
    claims.recover()
    return claims


def claim(name: str, boot: str) -> dict[str, str]:
    return {"attempt": name, "boot": boot}


def there(layout: Layout) -> set[str]:
    return {
        name.removesuffix(".json")
        for name in os.listdir(layout.claims)
        if read_json(f"{layout.claims}/{name}")
    }


def test_a_claim_is_made_once(layout: Layout) -> None:
    claims = opened(layout, "one")
    assert claims.add(claim("at_1", "one"))
    assert not claims.add(claim("at_1", "one"))
    assert there(layout) == {"at_1"}


def test_after_a_power_failure_an_answered_claim_is_there_and_a_forgotten_one_is_not(layout: Layout) -> None:
    claims = opened(layout, "one")
    for name in ("at_1", "at_2", "at_3"):
        claims.add(claim(name, "one"))
    claims.sync()
    claims.drop("at_2", NOWHERE)
    os.unlink(layout.claim("at_1"))  # the kernel had not written it
    Path(layout.claim("at_3")).write_bytes(b"")  # nor the content of this one
    opened(layout, "two")
    assert there(layout) == {"at_1", "at_3"}
    assert read_json(layout.claim("at_3")) == claim("at_3", "one")


def test_a_runner_of_the_same_boot_takes_the_files_as_they_are_and_makes_them_last(layout: Layout) -> None:
    claims = opened(layout, "one")
    for name in ("at_1", "at_2"):
        claims.add(claim(name, "one"))  # and ends before it could sync them
    os.unlink(layout.claim("at_1"))
    opened(layout, "one")
    assert there(layout) == {"at_2"}
    os.unlink(layout.claim("at_2"))
    opened(layout, "two")
    assert there(layout) == {"at_2"}


def test_a_torn_line_hides_none_of_the_others(layout: Layout) -> None:
    claims = opened(layout, "one")
    claims.add(claim("at_1", "one"))
    claims.sync()
    with open(layout.claims + ".log", "ab") as log:
        log.write(b'{"claim":{"attempt":"at_2"')
    claims = opened(layout, "one")
    claims.add(claim("at_3", "one"))
    claims.sync()
    for name in ("at_1", "at_3"):
        os.unlink(layout.claim(name))
    opened(layout, "two")
    assert there(layout) == {"at_1", "at_3"}


@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "sync", "begin"]), st.integers(0, 5)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_what_was_synced_and_not_dropped_is_found_whatever_files_are_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    layout = Layout(str(tmp_path_factory.mktemp("claims")))
    layout.make()
    claims = opened(layout, "one")
    waiting: set[str] = set()
    lasting: set[str] = set()
    for step, number in steps:
        name = f"at_{number}"
        if step == "add" and claims.add(claim(name, "one")):
            waiting.add(name)
        elif step == "drop" and name in there(layout):
            claims.drop(name, NOWHERE)
            waiting.discard(name)
            lasting.discard(name)
        elif step == "sync":
            claims.sync()
            lasting, waiting = lasting | waiting, set()
        elif step == "begin":
            claims = opened(layout, "one")
            lasting, waiting = lasting | waiting, set()
    for name in there(layout):
        os.unlink(layout.claim(name))
    opened(layout, "two")
    assert lasting <= there(layout)


def test_a_long_log_is_begun_anew_with_what_is_not_forgotten(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 500)
    claims = opened(layout, "one")
    for number in range(60):
        claims.add(claim(f"at_{number}", "one"))
        claims.sync()
        if number < 58:
            claims.drop(f"at_{number}", NOWHERE)
    lines = Path(layout.claims + ".log").read_bytes().splitlines()
    assert json.loads(lines[0]) == {"boot": "one"}
    assert len(lines) < 20
    for name in ("at_58", "at_59"):
        os.unlink(layout.claim(name))
    opened(layout, "two")
    assert there(layout) == {"at_58", "at_59"}


def test_what_a_full_disk_took_a_part_of_hides_no_later_claim(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = opened(layout, "one")
    whole, room = os.write, [20]

    def write(fd: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") != layout.claims + ".log":
            return whole(fd, data)
        taken = whole(fd, bytes(data[: room[0]]))
        room[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, "full")
        return taken

    claims.add(claim("at_1", "one"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        with pytest.raises(OSError, match="full"):
            claims.sync()
        claims.take_back("at_1")
    claims.add(claim("at_2", "one"))
    claims.sync()
    os.unlink(layout.claim("at_2"))
    opened(layout, "two")
    assert there(layout) == {"at_2"}


def test_a_torn_claim_that_was_never_answered_is_no_claim_after_a_power_failure(layout: Layout) -> None:
    opened(layout, "one")
    Path(layout.claim("at_1")).write_bytes(b"")
    Path(layout.claim("at_2") + ".77.tmp").write_bytes(b"{")
    claims = opened(layout, "two")
    assert os.listdir(layout.claims) == []
    assert claims.add(claim("at_1", "two"))


def test_a_claim_that_is_gone_already_can_be_dropped(layout: Layout) -> None:
    claims = opened(layout, "one")
    claims.add(claim("at_1", "one"))
    claims.sync()
    os.unlink(layout.claim("at_1"))
    claims.drop("at_1", NOWHERE)
    opened(layout, "two")
    assert there(layout) == set()


def test_more_claims_than_the_log_should_hold_are_not_written_anew_with_each_batch(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 500)
    claims = opened(layout, "one")
    written: list[str] = []

    def rename(one: str, two: str) -> None:
        written.append(two)
        os.replace(one, two)

    monkeypatch.setattr(os, "rename", rename)
    for number in range(100):
        claims.add(claim(f"at_{number}", "one"))
        claims.sync()
    assert len([path for path in written if path == layout.claims + ".log"]) < 8


def test_a_full_disk_keeps_no_runner_from_its_claims_but_from_new_ones(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened(layout, "one")
    before.add(claim("at_1", "one"))
    before.sync()

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        claims = opened(layout, "one")
        assert there(layout) == {"at_1"}
        assert claims.add(claim("at_2", "one"))
        with pytest.raises(OSError, match="full"):
            claims.sync()
        claims.take_back("at_2")
    assert claims.add(claim("at_2", "one"))
    claims.sync()
    for name in ("at_1", "at_2"):
        os.unlink(layout.claim(name))
    opened(layout, "two")
    assert there(layout) == {"at_1", "at_2"}
