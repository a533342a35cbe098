"""The books of a finished run: the log verifies, and the conservation checks hold exactly."""

from __future__ import annotations

from tests.support.server import Server


def check_books(server: Server) -> None:
    """CK1 to CK9 and state against leaves, by the server's own checks."""
    answer = server.client.post("/v1/audit/checks")
    found = answer.json()
    assert answer.status_code == 200, found
    bad = {check["id"]: check["findings"][:5] for check in found["checks"] if not check["ok"]}
    assert found["ok"], bad
