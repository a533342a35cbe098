"""What npu-smi says of a chip in words: its health, and the texts by which it failed."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.devices.failing import FailureText
from steelyard.devices.reading import ProblemCode
from steelyard.devices.text import UnreadableError
from steelyard.model.health import Health, Sign, SignCode, SignSource

FAMILY = "ascend"
TOOL = "npu-smi"

FAILURE_TEXTS = (
    FailureText("Invalid card id", ProblemCode.TOOL_ERROR, SignCode.NOT_FOUND),
    FailureText("Error parameter of -i", ProblemCode.TOOL_ERROR),
    FailureText("dcmi module initialize failed", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),
    FailureText("dcmi model initialized failed", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),
    FailureText("libdcmi.so", ProblemCode.TOOL_ERROR, SignCode.LIBRARY_MISSING),
)

_HEALTH: dict[str, tuple[Health, SignCode | None]] = {
    "ok": (Health.HEALTHY, None),
    "warning": (Health.DEGRADED, SignCode.VENDOR_WARNING),
    "alarm": (Health.UNHEALTHY, SignCode.VENDOR_ALARM),
    "critical": (Health.UNHEALTHY, SignCode.VENDOR_ALARM),
    "unknown": (Health.UNKNOWN, SignCode.READING_UNKNOWN),
}


def health_sign(word: str, codes: str | None = None) -> Iterator[Sign]:
    """What the health column (with the error codes of the health query) says. Raises UnreadableError."""
    known = _HEALTH.get(word.strip().lower())
    if known is None:
        raise UnreadableError(word[:80])
    health, code = known
    if code is None:
        return
    params: dict[str, str | int] = {"codes": codes[:120]} if codes else {}
    yield Sign(code, health, SignSource.TOOL, word.strip(), params)
