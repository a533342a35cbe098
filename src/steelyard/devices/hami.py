"""What HAMi's plug-ins write on a Kubernetes node of its devices: two encodings, read into neutral facts.

Text: `id,count,memory,cores,type,numa,health,index,mode:` for each device, older ones without index and mode.
JSON: a list of objects in which a value of zero (or false) is left out, so that a device without `health` is
not healthy and one without `index` is number 0. `count` is how many may share the device; `memory` (MiB) and
`cores` (percent) are what is offered of it, which a plug-in may have scaled: they are no facts of the card.
MetaX's plug-in has a list with keys of its own. Source: HAMi 4707fb02, pkg/device/devices.go (DeviceInfo,
DecodeNodeDevices, MarshalNodeDevices) and pkg/device/metax/protocol.go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.devices.csvrows import Value, number, with_values
from steelyard.devices.output import Layout, Output, output_of
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import UnreadableError, json_in, known, pci
from steelyard.model.health import Health, Sign, SignCode, SignSource

TOOL = "hami"
TEXT = "register-text"
JSON = "register-json"
METAX = "metax-json"

_FAMILIES = {
    "hami.io/node-nvidia-register": "nvidia",
    "hami.io/node-amd-register": "amd",
    "hami.io/node-dcu-register": "hygon-dcu",
    "hami.io/node-hcu-register": "hygon-dcu",  # the name since HAMi renamed it
    "hami.io/node-biren-register": "biren",
    "hami.io/node-register-xpu": "kunlunxin",
    "metax-tech.com/node-gpu-devices": "metax",
}
_ASCEND = re.compile(r"hami\.io/node-register-Ascend[A-Za-z0-9-]{1,40}")
_ILUVATAR = re.compile(r"hami\.io/node-(?:MR|BI)-[A-Za-z0-9]{1,20}-register")
_METAX_KEY = "metax-tech.com/node-gpu-devices"
_KEY_MAX = 128
_RECORDS_MAX = 4_096
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,127}")
_WORDS = re.compile(r"[A-Za-z0-9][^,:\"]{0,119}")
_NUMA = re.compile(r"-?[0-9]{1,4}")
_NVIDIA = "NVIDIA-"  # ahead of the model's name in what some releases write
_HEALTH = {"true": True, "false": False}

#: Name of the reading's value → key in the JSON form.
_KEYS = {"uuid": "id", "index": "index", "model": "type", "shares": "count", "memory_offered": "devmem"}
_METAX_KEYS = {"uuid": "uuid", "model": "model", "shares": "totalDevCount", "memory_offered": "totalVRam"}


def family_of(key: str) -> str | None:
    """The family whose devices a node annotation lists; None where it is no such annotation."""
    if len(key) > _KEY_MAX:
        return None
    if _ASCEND.fullmatch(key):
        return "ascend"
    return "iluvatar" if _ILUVATAR.fullmatch(key) else _FAMILIES.get(key)


def devices_of(annotations: Mapping[str, str]) -> Parsed:
    """The devices that a node's annotations list, over all families. Other annotations are passed over."""
    readings: list[Reading] = []
    problems: list[Problem] = []
    for key in sorted(annotations):
        family = family_of(key)
        if family is not None:
            parsed = _devices(key, family, annotations[key])
            readings += parsed.readings
            problems += parsed.problems
    return Parsed(readings=tuple(readings), problems=tuple(problems))


def _devices(key: str, family: str, value: str) -> Parsed:
    output = output_of(value)
    if output.text.lstrip().startswith("["):
        found = json_in(output)
        items = found.value if found is not None else None
        if isinstance(items, list):
            layout = METAX if key == _METAX_KEY else JSON
            base = Reading(family, TOOL, layout, True, "")
            parsed = _gathered(_of_json(base, item, layout) for item in items[:_RECORDS_MAX])
            return _numbered(parsed) if items else _none(key)
        return Parsed(problems=(Problem(ProblemCode.TRUNCATED, kept(value[:1_000])),))
    base = Reading(family, TOOL, TEXT, True, "")
    *records, rest = output.text.split(":")
    parsed = _gathered(_of_text(base, record) for record in records[:_RECORDS_MAX] if record.strip())
    if not rest.strip():
        return parsed if parsed.readings or parsed.problems else _none(key)
    # A record ends with a colon: what follows the last one was cut.
    return replace(parsed, problems=(*parsed.problems, Problem(ProblemCode.TRUNCATED, kept(rest[:1_000]))))


def _numbered(parsed: Parsed) -> Parsed:
    """A number that two devices have is neither's: one of them lacks its own, which reads as 0."""
    times = Counter(reading.index for reading in parsed.readings)
    alone = (replace(one, index=one.index if times[one.index] == 1 else None) for one in parsed.readings)
    return replace(parsed, readings=tuple(alone))


def _none(key: str) -> Parsed:
    return Parsed(problems=(Problem(ProblemCode.NO_DEVICE, key),))


def _gathered(found: Iterable[Reading | Problem]) -> Parsed:
    readings, problems = [], []
    for one in found:
        if isinstance(one, Problem):
            problems.append(one)
            continue
        readings.append(one)
        if not one.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, one.line))
    return Parsed(readings=tuple(readings), problems=tuple(problems))


def _of_form(text: str, form: re.Pattern[str]) -> str:
    if not form.fullmatch(text):
        raise UnreadableError(text[:80])
    return text


def _healthy(text: str) -> bool:
    if text not in _HEALTH:
        raise UnreadableError(text[:80])
    return _HEALTH[text]


def _model(family: str, text: str) -> str:
    name = _of_form(text, _WORDS)
    return name.removeprefix(_NVIDIA) if family == "nvidia" else name


def _judged(base: Reading, values: Iterable[tuple[str, Value]], healthy: bool) -> Reading:
    reading = with_values(base, values)
    if reading.other.get("mode") == "mig":
        reading = replace(reading, mig=True)
    said = Sign(SignCode.VENDOR_ALARM, Health.UNHEALTHY, SignSource.TOOL, "health: false")
    return judged(reading, () if healthy else (said,))


def _of_text(base: Reading, record: str) -> Reading | Problem:
    base = replace(base, line=kept(record[:1_000]))
    cells = [cell.strip() for cell in record.split(",", 12)]
    if len(cells) not in (7, 9):
        return Problem(ProblemCode.ROW_INCOMPLETE, base.line)
    try:
        uuid = _of_form(cells[0], _ID)
    except UnreadableError:
        return Problem(ProblemCode.ROW_INCOMPLETE, base.line)
    try:
        values: list[tuple[str, Value]] = [
            ("uuid", uuid),
            ("shares", number(cells[1])),
            ("memory_offered", number(cells[2])),
            ("cores_offered", number(cells[3])),
            ("model", _model(base.family, cells[4])),
            ("numa", _numa(cells[5])),
        ]
        if len(cells) == 9:
            values += [("index", number(cells[7])), ("mode", known(_of_form(cells[8], _WORDS)))]
        return _judged(base, values, _healthy(cells[6]))
    except UnreadableError:
        return incomplete(replace(base, uuid=uuid), record[:1_000])


def _numa(text: str) -> int | None:
    found = int(_of_form(text, _NUMA))
    return None if found < 0 else found


def _of_json(base: Reading, item: object, layout: str) -> Reading | Problem:
    """One object. What is left out is zero; an object without an id can't be told from others."""
    base = replace(base, line=kept(str(item)[:1_000]))
    if not isinstance(item, dict):
        return Problem(ProblemCode.ROW_INCOMPLETE, base.line)
    keys = _METAX_KEYS if layout == METAX else _KEYS
    try:
        uuid = _of_form(_json_text(item, keys["uuid"]), _ID)
    except UnreadableError:
        return Problem(ProblemCode.ROW_INCOMPLETE, base.line)
    try:
        healthy, values = _json_values(base.family, item, layout)
        return _judged(base, [("uuid", uuid), *values], healthy)
    except UnreadableError:
        return incomplete(replace(base, uuid=uuid), base.line)


def _json_values(
    family: str, item: Mapping[object, object], layout: str
) -> tuple[bool, list[tuple[str, Value]]]:
    keys, cores, health = (_KEYS, "devcore", "health")
    if layout == METAX:
        keys, cores, health = (_METAX_KEYS, "totalCompute", "healthy")
    model = item.get(keys["model"])
    values: list[tuple[str, Value]] = [
        ("shares", number(_json_text(item, keys["shares"], "0"))),
        ("memory_offered", number(_json_text(item, keys["memory_offered"], "0"))),
        ("cores_offered", number(_json_text(item, cores, "0"))),
        ("numa", _numa(_json_text(item, "numa", "0"))),
        ("model", None if model is None else _model(family, _json_text(item, keys["model"]))),
    ]
    if layout == METAX:
        values.append(("pci", pci(_json_text(item, "bdf", "-"))))
    else:
        values.append(("index", number(_json_text(item, "index", "0"))))
        values.append(("mode", known(_json_text(item, "mode", "-"))))
    healthy = item.get(health, False)
    if not isinstance(healthy, bool):
        raise UnreadableError(health)
    return healthy, values


def _json_text(item: Mapping[object, object], key: str, missing: str | None = None) -> str:
    found = item.get(key, missing)
    if not isinstance(found, str):
        raise UnreadableError(key)
    return found


# -- as lines `annotation=value` -----------------------------------------------------------------------------


def _annotations(output: Output) -> dict[str, str]:
    pairs = (line.text.partition("=") for line in output.lines if "=" in line.text[: _KEY_MAX + 1])
    return {key: value for key, _, value in pairs if family_of(key) is not None}


def _layout(name: str, begins: str) -> Layout:
    def recognises(output: Output) -> bool:
        return any(value.lstrip().startswith("[") == bool(begins) for value in _annotations(output).values())

    return Layout("", TOOL, name, recognises, lambda output: devices_of(_annotations(output)))


LAYOUTS = (_layout(JSON, "["), _layout(TEXT, ""))
