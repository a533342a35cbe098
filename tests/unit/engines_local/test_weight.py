"""The runner loads little: every shim is a fork of it, so what it loads counts once for each member."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("asyncio", "dataclasses", "email", "http", "inspect", "logging", "psutil", "shutil", "ssl",
         "subprocess", "tempfile", "threading", "yaml")


def modules_of(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_runner_imports_the_standard_library_only_and_little_of_it() -> None:
    loaded = modules_of("import sys, steelyard.engines.local.runner; print(*sys.modules)")
    ours = {name for name in loaded if name.startswith("steelyard.")}
    assert all(name == "steelyard.engines" or name.startswith("steelyard.engines.local") for name in ours)
    roots = {name.partition(".")[0] for name in loaded} - {"steelyard", "__main__"}
    assert not [name for name in HEAVY if name in loaded]
    bare = modules_of("import sys; print(*sys.modules)")  # what the installation itself brings along
    assert roots - set(sys.stdlib_module_names) - {name.partition(".")[0] for name in bare} == set()
