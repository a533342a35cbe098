"""A workload's document as a person would write it, made of what is stored; and the lines of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from steelyard.model.units import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_quantity

Json = dict[str, Any]
_PLAIN = {
    "queue": "queue",
    "priority_class": "priorityClass",
    "restart": "restart",
    "max_attempts": "maxAttempts",
    "hold": "hold",
    "artifacts": "artifacts",
}
_OF_ROLE = {
    "image": "image",
    "venv": "venv",
    "working_directory": "workingDirectory",
    "port": "port",
    "tty": "tty",
    "requires": "requires",
    "expect": "expect",
}
_OF_REQUEST = {"flavors": "flavors", "models": "models", "clusters": "clusters"}
#: What stands in every row and that nobody wrote.
_DEFAULTS = {"restart": "on-infrastructure", "maxAttempts": 3, "grace": "10s"}
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (MILLISECOND, "ms"))
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def document_of(view: Mapping[str, Any]) -> str:
    """The document in YAML. Defaults are left out; a template is expanded already."""
    spec = view["spec"]
    metadata: Json = {"name": view["name"], "namespace": view["namespace"]}
    if spec.get("labels"):
        metadata["labels"] = dict(spec["labels"])
    body: Json = {"kind": spec["kind"]}
    body |= {new: spec[old] for old, new in _PLAIN.items() if spec.get(old) not in (None, [], {}, False)}
    if spec.get("preemptible", True) is (spec["kind"] == "inference"):
        body["preemptible"] = spec["preemptible"]
    for old, new in (("time_limit", "timeLimit"), ("grace", "grace"), ("checkpoint", "checkpoint")):
        if spec.get(old) is not None:
            body[new] = duration(spec[old])
    if spec.get("work_limit") is not None:
        body["workFolder"] = {"sizeLimit": _amount("memory", spec["work_limit"])}
    body |= {new: made(spec[old]) for old, (new, made) in _PARTS.items() if spec.get(old)}
    body = {key: value for key, value in body.items() if _DEFAULTS.get(key) != value}
    if spec.get("topology"):
        body["topology"] = {key: level for key, level in spec["topology"].items() if level is not None}
    if spec.get("throughput"):
        body["throughput"] = {model: _amount("gpu", amount) for model, amount in spec["throughput"]}
    body["roles"] = [_role(role) for role in spec["roles"]]
    return dump({"kind": "Workload", "metadata": metadata, "spec": body})


def _role(role: Mapping[str, Any]) -> Json:
    request = role["request"]
    found: Json = {"name": role["name"], "count": role["count"], "command": list(role["command"])}
    if role.get("least") is not None:
        found["min"] = role["least"]
    if not role.get("shrink", True):
        found["shrink"] = False
    if role.get("grow"):
        found["grow"] = True
    if role.get("env"):
        found["env"] = dict(role["env"])
    found["requests"] = {name: _amount(name, quantity) for name, quantity in request["amounts"]}
    found |= {new: request[old] for old, new in _OF_REQUEST.items() if request.get(old)}
    for old, new in (("node_labels", "nodeLabels"), ("needs", "needs")):
        if request.get(old):
            found[new] = dict(request[old])
    found |= {new: role[old] for old, new in _OF_ROLE.items() if role.get(old)}
    if role.get("pull", "never") != "never":
        found["pull"] = role["pull"]
    if role.get("probe"):
        probe = role["probe"]
        found["probe"] = {**probe, "interval": duration(probe["interval"])}
    return found


def _amount(resource: str, quantity: int) -> str:
    if resource == "memory":
        return f"{quantity // 1024}Gi" if quantity % 1024 == 0 else f"{quantity}Mi"
    return f"{quantity}m" if quantity % 1000 else format_quantity(resource, quantity)


def duration(micros: int) -> str:
    """A span as documents write it: `1h30m`."""
    parts, rest = [], micros
    for unit, letter in _UNITS:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count}{letter}")
    return "".join(parts) or "0s"


def _replicas(part: Mapping[str, Any]) -> Json:
    found = {name: part[name] for name in ("initial", "guaranteed")} | {"max": part["most"]}
    return found | ({"lend": True} if part["lend"] else {})


def _idle(part: Mapping[str, Any]) -> Json:
    return {"after": duration(part["after"]), "cpu": _amount("cpu", part["cpu"]), "device": part["device"]}


def _evaluation(part: Mapping[str, Any]) -> Json:
    model = {"name": part["model"], "digest": part["model_digest"], "workload": part["model_workload"]}
    dataset = {"name": part["dataset"], "digest": part["dataset_digest"]}
    return {"model": _given(model), "dataset": _given(dataset), "result": part["result"]}


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


#: Parts of some kinds only: their key in a document, and how they are written.
_PARTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], Json]]] = {
    "replicas": ("replicas", _replicas),
    "array": ("array", dict),
    "idle_limit": ("idleLimit", _idle),
    "evaluation": ("evaluation", _evaluation),
}


class _Dumper(yaml.SafeDumper):
    """Lists of plain values on one line, as people write commands."""

    def represent_sequence(
        self, tag: str, sequence: Any, flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        plain = all(not isinstance(item, dict | list | tuple) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain or flow_style)

    def ignore_aliases(self, data: Any) -> bool:
        """Never: every value is written out."""
        return True


def dump(document: Json) -> str:
    """A document as YAML, its keys in their order."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def line_of(text: str, path: str | None) -> int | None:
    """The line (from 1) of a field in a YAML text, or of the innermost part of its path that is there."""
    return lines_of(text, [path])[0]


def lines_of(text: str, paths: Sequence[str | None]) -> list[int | None]:
    """The same of many fields, reading the text once."""
    node: Any = None
    if any(paths):
        with suppress(yaml.YAMLError):
            node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [_line(node, path) if path else None for path in paths]


def _line(node: Any, path: str) -> int | None:
    line: int | None = None
    for key, index in _STEP.findall(path):
        found = _step(node, key, index)
        if found is None:
            return line
        line, node = found
    return line


def _step(node: Any, key: str, index: str) -> tuple[int, Any] | None:
    if isinstance(node, yaml.MappingNode) and key:
        for name, value in node.value:
            if name.value == key:
                return name.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        inner = node.value[int(index)]
        return inner.start_mark.line + 1, inner
    return None
