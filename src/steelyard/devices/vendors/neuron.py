"""neuron-ls of AWS Neuron, and the hardware errors that its driver writes to the kernel's log.

neuron-ls tells nothing of health, temperature or use. In the log only `NEURON_HW_ERR=KIND` is read, which
the vendor's own problem detector matches, and `nd-id=N` where it stands (catalogue: aws-neuron).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from steelyard.devices.csvrows import Value, number
from steelyard.devices.jsonrows import Field, read_objects
from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import DETAIL_LIMIT, Parsed, Problem, ProblemCode, Reading, judged, kept
from steelyard.devices.signs import unconfirmed
from steelyard.devices.text import UnreadableError, at, json_in, known, mib, pci, text_at, whole
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource

FAMILY = "aws-neuron"
TOOL = "neuron-ls"
KERNEL_TOOL = "kernel-log"
KERNEL = "neuron-hardware-error"

_BUS = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_HOLDERS_MAX = 1_000


def _bus(text: str) -> str | None:
    if not _BUS.fullmatch(text):
        raise UnreadableError(text[:80])
    return pci(text)


def _bytes(text: str) -> int | None:
    if not text.isascii() or not text.isdigit():
        raise UnreadableError(text[:80])
    return mib(text, "B")


#: Older releases print neither `numa_node` nor `logical_neuroncore_config` nor `neuroncore_ids`.
_FIELDS = (
    Field("index", ("neuron_device",), number),
    Field("pci", ("bdf",), _bus),
    Field("cores", ("nc_count",), number),
    Field("memory", ("memory_size",), _bytes),
    Field("numa", ("numa_node",), whole, needed=False),
    Field("logical_core_size", ("logical_neuroncore_config",), whole, needed=False),
)

#: What the vendor's problem detector takes for a permanent condition of the node.
_KINDS = frozenset({
    "SRAM_UNCORRECTABLE_ERROR", "NC_UNCORRECTABLE_ERROR", "HBM_UNCORRECTABLE_ERROR", "DMA_ERROR",
})  # fmt: skip
_ERROR = re.compile(r"\bNEURON_HW_ERR=([A-Z0-9_]{1,64})(?=\s|$)")
_DEVICE = re.compile(r"\bnd-id=([0-9]{1,4})(?=\s|$)")


def _listed(item: object, name: str) -> list[object] | None:
    """The list under a key; None where there is none or null. Raises UnreadableError for anything else."""
    found = at(item, name)
    if found is None:
        return None
    if not isinstance(found, list):
        raise UnreadableError(name)
    return found


def _numbers(item: object, name: str) -> str | None:
    found = _listed(item, name)
    if found is None:
        return None
    return ",".join(str(number(one)) if isinstance(one, str) else "?" for one in found[:_HOLDERS_MAX])


def _holder(process: object) -> DeviceHolder:
    pid = whole(text_at(process, "pid"))
    command = known(text_at(process, "command"))
    return DeviceHolder(pid, None if command is None else kept(command))


def _more(item: object) -> Iterable[tuple[str, Value]]:
    yield "core_ids", _numbers(item, "neuroncore_ids")
    yield "peers", _numbers(item, "connected_to")
    processes = _listed(item, "neuron_processes")
    if processes is not None:
        yield "holders", tuple(_holder(process) for process in processes[:_HOLDERS_MAX])


def _devices(output: Output) -> list[object] | None:
    found = json_in(output)
    items = found.value if found is not None else None
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        return None
    return items if any("neuron_device" in one for one in items if isinstance(one, dict)) else None


def _read_devices(output: Output) -> Parsed:
    base = Reading(FAMILY, TOOL, "json", True, "")
    return read_objects(_devices(output) or [], base, _FIELDS, extra=_more)


def _sign(kind: str) -> Sign:
    if kind not in _KINDS:
        return unconfirmed(SignCode.KERNEL_FAULT, SignSource.KERNEL, kind)
    return Sign(SignCode.KERNEL_FAULT, Health.UNHEALTHY, SignSource.KERNEL, kind[:DETAIL_LIMIT])


def _errors(line: Line) -> tuple[str, int | None] | None:
    error = _ERROR.search(line.text) if line.whole else None
    if error is None:
        return None
    device = _DEVICE.search(line.text)
    return error[1], None if device is None else int(device[1])


def _is_log(output: Output) -> bool:
    return any("NEURON_HW_ERR=" in line.text for line in output.lines)


def _read_log(output: Output) -> Parsed:
    """Each device that a line names, with all its errors. A line that names none is a problem."""
    signs: dict[int, dict[str, Sign]] = {}
    last: dict[int, str] = {}
    problems = []
    for line in output.lines:
        found = _errors(line)
        if found is not None and found[1] is not None:
            signs.setdefault(found[1], {}).setdefault(found[0], _sign(found[0]))
            last[found[1]] = kept(line.text)
        elif "NEURON_HW_ERR=" in line.text:
            sign = None if found is None else SignCode.KERNEL_FAULT
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number, sign))
    readings = tuple(
        judged(Reading(FAMILY, KERNEL_TOOL, KERNEL, True, last[index], index=index), kinds.values())
        for index, kinds in signs.items()
    )
    return Parsed(readings=readings, problems=tuple(problems))


LAYOUTS = (
    Layout(FAMILY, TOOL, "json", lambda output: _devices(output) is not None, _read_devices),
    Layout(FAMILY, KERNEL_TOOL, KERNEL, _is_log, _read_log),
)
