"""Whose a process is that bears no mark."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from steelyard.engines.local import forked, procfs
from steelyard.engines.local.census import Census
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.remains import of_user, read_notes


def test_a_shim_that_was_seen_before_it_named_itself_answers_for_its_programs(tmp_path: Path) -> None:
    ready, say = os.pipe()
    shim = os.fork()
    if shim == 0:
        forked.set_name("steelyard-shim")
        if os.fork():
            os.write(say, b"x")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"x"
        everyone = {one.pid: one for one in procfs.processes()}
        (program,) = (one for one in everyone.values() if one.parent == shim)
        everyone[shim] = everyone[shim]._replace(name="steelyard-run")
        census = Census(list(everyone.values()), everyone)
        census.users = {program.pid: 4321, shim: os.geteuid()}
        notes = read_notes(Layout(str(tmp_path)), "at_1", {"member": "mb_1"}, procfs.boot_id(), 4321)
        notes = replace(notes, run={"child": {"pid": 1, "start": program.start}})
        assert of_user(notes, census) == []
    finally:
        for one in procfs.descendants(shim, procfs.processes()):
            os.kill(one.pid, signal.SIGKILL)
        os.kill(shim, signal.SIGKILL)
        os.waitpid(shim, 0)
        os.close(ready)
        os.close(say)
