"""How a server speaks to the runner: one JSON object a line, over a unix socket, versioned.

Request: `{"id": n, "op": name, …}`. Reply: `{"id": n, "ok": true, "result": …}` or
`{"id": n, "ok": false, "code": …, "text": …}`. The first request is `hello` with the versions that the
server speaks; the runner takes the highest that it speaks, too, and answers with that. Both outlive each
other, so each understands some older versions: a newer server adopts an older runner as it is, and the other
way about. Where there is no version in common the server only watches (stranger.py).

Operations: hello, isolation (from version 2 on), start, signal, stop, observe, forget, running, retire. All
are idempotent, so that a request whose reply was lost is simply sent again. From version 2 on there is
`exec`, which is not: after its reply the connection belongs to the command that was started, and carries
frames (frames.py). From version 3 on there is `listen`: after its reply the runner sends a line `{}` whenever
members may have ended, and nothing more is asked on that connection.
"""

from __future__ import annotations

import json
from typing import Any

VERSION = 3
#: Versions that server and runner of this release understand.
ADOPTABLE = (1, 2, 3)
#: From which version on there is `exec`.
WITH_EXEC = 2
#: From which version on there is `isolation`, and an attempt is started in the one that it says.
WITH_ISOLATION = 2
#: From which version on there is `listen`.
WITH_NEWS = 3
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
