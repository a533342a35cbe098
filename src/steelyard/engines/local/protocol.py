"""How a server speaks to the runner: one JSON object a line, over a unix socket, versioned.

Request: `{"id": n, "op": name, …}`. Reply: `{"id": n, "ok": true, "result": …}` or
`{"id": n, "ok": false, "code": …, "text": …}`. The first request is `hello` with the versions that the
server speaks; the runner answers with the one that it speaks. A runner lives longer than a server, so an
older version must stay understood: a newer server adopts it as it is.

Operations: hello, start, signal, stop, observe, forget, running, retire. All are idempotent, so that a
request whose reply was lost is simply sent again.
"""

from __future__ import annotations

import json
from typing import Any

VERSION = 1
#: Versions of the runner that this server can adopt.
ADOPTABLE = (1,)
MAX_LINE = 64 << 20


def encode(message: dict[str, Any]) -> bytes:
    """One message as a line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The message in a line. Raises ValueError."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message is an object")
    return message
