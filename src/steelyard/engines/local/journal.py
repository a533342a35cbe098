"""What the runner and its shims have to say: lines in runner.log, which is their standard error."""

from __future__ import annotations

import os
import time
from contextlib import suppress


def log(text: str) -> None:
    """One line in runner.log."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with suppress(OSError):
        os.write(2, f"{stamp} {os.getpid()} {text}\n".encode("utf-8", "backslashreplace"))
