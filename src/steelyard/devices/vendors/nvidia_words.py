"""What the NVIDIA tools say of a card in words: signs, failure texts, a card that no longer answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from steelyard.devices.failing import FailureText
from steelyard.devices.output import Line
from steelyard.devices.reading import DETAIL_LIMIT, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import pci
from steelyard.model.health import Health, Sign, SignCode, SignSource

FAMILY = "nvidia"
TOOL = "nvidia-smi"

#: Texts by which the tool says that it failed. The first that fits decides, so the special ones come first.
FAILURE_TEXTS = (
    FailureText("Driver/library version mismatch", ProblemCode.TOOL_ERROR, SignCode.LIBRARY_MISSING),
    FailureText("initialize NVML: Driver Not Loaded", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),
    # In a container whose device rules were taken away the library finds the driver and may not open it.
    FailureText("initialize NVML: Unknown Error", ProblemCode.TOOL_ERROR, SignCode.PERMISSION_DENIED),
    FailureText("Insufficient Permissions", ProblemCode.TOOL_ERROR, SignCode.PERMISSION_DENIED),
    FailureText("couldn't find libnvidia-ml.so", ProblemCode.TOOL_ERROR, SignCode.LIBRARY_MISSING),
    FailureText("Failed to initialize NVML", ProblemCode.TOOL_ERROR, SignCode.TOOL_FAILED),
    FailureText(
        "couldn't communicate with the NVIDIA driver", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING
    ),
    FailureText("No devices were found", ProblemCode.NO_DEVICE),
)

_WORDS = {
    "[gpu is lost]": (SignCode.FELL_OFF_BUS, Health.MISSING),
    "[gpu requires reset]": (SignCode.RESET_REQUIRED, Health.UNHEALTHY),
    "[unknown error]": (SignCode.READING_UNKNOWN, Health.UNKNOWN),
    "err!": (SignCode.READING_UNKNOWN, Health.UNKNOWN),
}
_LOST = re.compile(
    r"Unable to determine the device handle for GPU ?(?:([0-9]{1,4}): ?)?"
    r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): (.{1,300})"
)


def ecc_sign(count: int | None) -> Iterator[Sign]:
    """Uncorrectable errors since the driver was loaded: such a card is unhealthy (catalogue: nvidia)."""
    if count:
        detail = f"{count} uncorrected"
        yield Sign(SignCode.ECC_UNCORRECTED, Health.UNHEALTHY, SignSource.ECC, detail, {"count": count})


def word_signs(cells: str) -> Iterator[Sign]:
    """What the words that stand in place of a row's figures say, each at most once."""
    lower = cells.lower()
    for word, (code, health) in _WORDS.items():
        if word in lower:
            yield Sign(code, health, SignSource.TOOL, word)


def lost_card(line: Line, layout: str) -> Reading | None:
    """The card that a line says could not be reached: missing if it says so, else nothing is known of it."""
    match = _LOST.search(line.text)
    if match is None:
        return None
    reading = Reading(
        family=FAMILY,
        tool=TOOL,
        layout=layout,
        complete=True,
        line=kept(line.text),
        index=int(match[1]) if match[1] else None,
        pci=pci(match[2]),
    )
    if "lost" in match[3] or "off the bus" in match[3]:
        sign = Sign(SignCode.FELL_OFF_BUS, Health.MISSING, SignSource.TOOL, kept(match[3])[:DETAIL_LIMIT])
        return judged(reading, [sign])
    return incomplete(reading, line.text)
