"""The embedded database is its owner's alone, also where its folder is copied to a more open place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from steelyard.store.database import SQLITE_NAME, sqlite_url
from steelyard.store.store import Store


def test_the_database_file_and_its_companions_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = Store(sqlite_url(tmp_path), lambda: 1)
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert SQLITE_NAME in found
    assert set(found.values()) == {0o600}, found
