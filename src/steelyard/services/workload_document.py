"""Workload documents: template merged beneath, then read strictly into a `WorkloadSpec`.

What many workloads ask for alike is read once: a spec says nothing of its workload's name or place.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import PurePosixPath
from typing import Any

from steelyard.engines.local import requires
from steelyard.engines.simulated.reader import Reader
from steelyard.model.errors import InvalidError
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import DAY, HOUR, MAX_QUANTITY, MINUTE
from steelyard.model.workloads import (
    MemberRequest,
    Probe,
    PullPolicy,
    RestartPolicy,
    Role,
    Runtime,
    WorkloadKind,
    WorkloadSpec,
)
from steelyard.services import workload_parts
from steelyard.services.faults import Faults
from steelyard.services.model_speeds import is_on_accelerators
from steelyard.services.reading import NAME, DocumentReader, deep_merge, shown

#: (name, version or None for the newest) → (version, spec) or None where there is no such template.
TemplateLookup = Callable[[str, str | None], tuple[str, dict[str, Any]] | None]

MAX_ROLES = 32
MAX_COUNT = 10_000
MAX_MEMBERS = 20_000
MAX_COMMAND = 256
MAX_ARGUMENT = 32_768
MAX_ENV = 256
MAX_ATTEMPTS = 100
MAX_PATHS = 64
#: Specs that are kept, and how large one of them may be.
MAX_KEPT, MAX_KEPT_BYTES = 512, 4096
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_KEYS = frozenset(
    {
        "kind",
        "queue",
        "priorityClass",
        "template",
        "timeLimit",
        "grace",
        "checkpoint",
        "restart",
        "maxAttempts",
        "hold",
        "preemptible",
        "artifacts",
        "workFolder",
        "roles",
        "replicas",
        "array",
        "idleLimit",
        "evaluation",
        "topology",
        "throughput",
    }
)
#: A reference as registries have it (the OCI distribution specification), or an image's id; nothing else.
_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_DEFAULT = WorkloadSpec("", "", WorkloadKind.BATCH, ())
_PROBE = Probe()


class _TopReader(DocumentReader):
    """The outermost mapping: its keys have no prefix."""

    def at(self, key: str) -> str:
        return key


def parse_workload(raw: object, template_lookup: TemplateLookup) -> WorkloadSpec:
    """The workload that a document asks for. Raises InvalidError with the path of what is wrong and, as
    `faults`, all that is; `template-unknown` where there is no such template (NAME or NAME@VERSION)."""
    try:
        return _workload(raw, template_lookup, None)
    except InvalidError as error:
        faults = Faults()
        faults.add(error)
    try:  # once more, to its end
        _workload(raw, template_lookup, faults)
    except InvalidError as error:
        faults.add(error)
    raise faults.error(raw)


def _workload(raw: object, template_lookup: TemplateLookup, faults: Faults | None) -> WorkloadSpec:
    outer = _TopReader(raw, "document", faults)
    if outer.text("kind") != "Workload":
        raise InvalidError("field-invalid", path="kind", expected="Workload")
    metadata = outer.reader("metadata")
    name, namespace, labels = metadata.name("name"), metadata.name("namespace"), metadata.labels()
    metadata.finish()
    body = outer.take("spec")
    outer.finish()
    template = None
    if isinstance(body, dict) and body.get("template") is not None:
        template, below = _template(body["template"], template_lookup)
        body = deep_merge(below, {key: value for key, value in body.items() if key != "template"})
    packed = _pack(body) if faults is None else None
    if packed is not None:
        spec = _kept(packed)
        return replace(spec, name=name, namespace=namespace, labels=labels, template=template)
    return _spec(name, namespace, labels, template, DocumentReader(body, "spec", faults))


def _pack(body: Any) -> bytes | None:
    """The same bytes for the same plain values of the same types; None for what is large, or not plain."""
    try:
        packed = marshal.dumps(body, 2)  # later versions write shared objects as references
    except ValueError:
        return None
    return packed if len(packed) <= MAX_KEPT_BYTES else None


@lru_cache(maxsize=MAX_KEPT)
def _kept(packed: bytes) -> WorkloadSpec:
    return _spec("", "", (), None, DocumentReader(marshal.loads(packed), "spec", None))


def check_template_body(raw: object, path: str) -> None:
    """A template's spec: a part of a workload's spec, so only its outline is checked here; what comes of
    it is checked with each workload. Raises InvalidError."""
    reader = DocumentReader(raw, path)
    for key in _KEYS - {"template"}:
        reader.take(key)
    reader.finish()


def _template(raw: object, lookup: TemplateLookup) -> tuple[str, dict[str, Any]]:
    text = raw if isinstance(raw, str) and len(raw) <= 128 else ""
    name, _, version = text.partition("@")
    if not NAME.fullmatch(name):
        raise InvalidError("field-invalid", path="spec.template", expected="NAME | NAME@VERSION")
    found = lookup(name, version or None)
    if found is None:
        raise InvalidError("template-unknown", path="spec.template", name=shown(text))
    return f"{name}@{found[0]}", found[1]


def _spec(
    name: str, namespace: str, labels: tuple[tuple[str, str], ...], template: str | None, r: DocumentReader
) -> WorkloadSpec:
    roles = tuple(_role(inner) for inner in r.readers("roles", MAX_ROLES))
    if not roles:
        r.wrong("field-missing", "spec.roles")
    names = [role.name for role in roles]
    if len(set(names)) != len(names):
        r.wrong("field-invalid", "spec.roles", expected="entries without doubles")
    if sum(role.count for role in roles) > MAX_MEMBERS:
        r.wrong("field-out-of-bounds", "spec.roles", low=1, high=MAX_MEMBERS)
    kind = r.choice("kind", WorkloadKind)
    # a service is not squeezed by work of a higher priority unless its owner says that it may be
    preemptible = r.flag("preemptible") if r.has("preemptible") else kind is not WorkloadKind.INFERENCE
    spec = WorkloadSpec(
        name=name,
        namespace=namespace,
        kind=kind,
        roles=roles,
        queue=r.optional_name("queue"),
        priority_class=r.optional_name("priorityClass"),
        template=template,
        time_limit=r.span("timeLimit", None, longest=366 * DAY),
        grace=r.span("grace", _DEFAULT.grace, longest=HOUR) or 0,
        checkpoint=r.span("checkpoint", None, longest=HOUR),
        restart=r.choice("restart", RestartPolicy, _DEFAULT.restart),
        max_attempts=r.integer("maxAttempts", _DEFAULT.max_attempts, low=1, high=MAX_ATTEMPTS),
        hold=r.flag("hold"),
        labels=labels,
        artifacts=tuple(
            r.attempt("", partial(_inside, path, f"spec.artifacts[{index}]"))
            for index, path in enumerate(r.texts("artifacts", MAX_PATHS, 1024))
        ),
        preemptible=preemptible,
        work_limit=_work_limit(r.reader("workFolder")),
        **workload_parts.read(r, kind),
    )
    if spec.throughput and roles and not is_on_accelerators(roles):
        r.wrong("field-invalid", r.at("throughput"), expected="beside gpu | npu | other")
    r.finish()
    return spec


def _role(r: DocumentReader) -> Role:
    role = Role(
        name=r.name("name"),
        **_members(r),
        request=_request(r),
        command=_command(r),
        env=_env(r.reader("env")),
        **_surroundings(r),
        working_directory=_folder(r),
        port=r.flag("port"),
        probe=_probe(r.reader("probe")) if r.has("probe") else None,
        requires=_requires(r),
        tty=r.flag("tty"),
        expect=_expect(r.reader("expect")),
    )
    r.finish()
    return role


def _members(r: DocumentReader) -> dict[str, Any]:
    """`count`, and where the role is elastic `min`: the fewest with which it starts, and goes on unless
    `shrink` says that it can't; `grow`: others may join it while it runs."""
    count = r.integer("count", 1, low=1, high=MAX_COUNT)
    least = r.integer("min", None, low=1, high=MAX_COUNT) if r.has("min") else None
    if least is not None and least > count:
        r.wrong("field-out-of-bounds", r.at("min"), low=1, high=count)
    shrink = r.flag("shrink") if least is not None and r.has("shrink") else True
    grow = r.flag("grow") if least is not None else False
    if grow and not shrink:
        r.wrong("field-invalid", r.at("grow"), expected="beside shrink: true")
    return {"count": count, "least": least, "shrink": shrink, "grow": grow}


def _surroundings(r: DocumentReader) -> dict[str, Any]:
    """`runtime: host | venv | container`, and what belongs to it: an image says `container` by itself."""
    image, venv = r.optional_text("image", limit=1024), r.optional_text("venv", limit=1024)
    implied = Runtime.CONTAINER if image is not None else Runtime.VENV if venv is not None else Runtime.HOST
    runtime = r.choice("runtime", Runtime, implied)
    for key, said, belongs in (("image", image, Runtime.CONTAINER), ("venv", venv, Runtime.VENV)):
        if runtime is belongs and said is None:
            r.wrong("field-missing", r.at(key))
        if runtime is not belongs and said is not None and not r.is_wrong("runtime"):
            r.wrong("field-invalid", r.at(key), expected=f"runtime: {belongs.value}")
    if image is not None and not _IMAGE.fullmatch(image):
        expected = "[REGISTRY/]NAME[:TAG][@sha256:DIGEST]"
        r.wrong("field-invalid", r.at("image"), expected=expected)
    pure = PurePosixPath(venv or "/venv")
    if not pure.is_absolute() or ".." in pure.parts or ":" in str(pure):
        r.wrong("field-invalid", r.at("venv"), expected="an absolute folder")
    pull = r.choice("pull", PullPolicy, PullPolicy.NEVER)
    if pull is not PullPolicy.NEVER and image is None:
        r.wrong("field-missing", r.at("image"))
    return {"image": image, "runtime": runtime, "venv": venv, "pull": pull}


def _request(r: DocumentReader) -> MemberRequest:
    if not r.has("requests"):
        r.wrong("field-missing", r.at("requests"))
    inner = r.reader("requests")
    amounts = []
    for device_class in sorted(DeviceClass):
        amount = inner.amount(device_class.value, device_class.value, 0)
        if amount:
            amounts.append((device_class, amount))
    memory = inner.amount("deviceMemory", DeviceClass.MEMORY.value, 0)
    inner.finish()
    if memory and not any(device_class in ACCELERATORS for device_class, _ in amounts):
        inner.wrong("field-invalid", inner.at("deviceMemory"), expected="beside gpu | npu | other")
    if not amounts:
        inner.wrong("field-invalid", inner.path, expected="a quantity above zero")
    if sum(device_class in ACCELERATORS for device_class, _ in amounts) > 1:
        inner.wrong("field-invalid", inner.path, expected="gpu | npu | other")
    return MemberRequest(
        tuple(amounts), r.names("flavors", 64), r.texts("models", 64), r.names("clusters", 64),
        r.labels("nodeLabels"), r.labels("needs"), memory,
    )  # fmt: skip


def _command(r: DocumentReader) -> tuple[str, ...]:
    found = []
    for raw, path in r.items("command", MAX_COMMAND):
        if not isinstance(raw, str) or len(raw) > MAX_ARGUMENT or "\0" in raw:
            r.wrong("field-invalid", path, expected="text")
            continue
        found.append(r.attempt("", partial(_sound, raw, path)))
    if not found or not found[0]:
        r.wrong("field-missing", r.at("command"))
    return tuple(found)


def _env(r: DocumentReader) -> tuple[tuple[str, str], ...]:
    found = []
    keys = r.left()
    if len(keys) > MAX_ENV:
        r.wrong("field-out-of-bounds", r.path, low=0, high=MAX_ENV)
    for key in sorted(keys):
        value = r.take(key)
        if not _ENV_NAME.fullmatch(key):
            r.wrong("field-invalid", r.at(shown(key)), expected="name of a variable")
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or len(value) > MAX_ARGUMENT or "\0" in value:
            r.wrong("field-invalid", r.at(key), expected="text")
            continue
        found.append((key, r.attempt("", partial(_sound, value, r.at(key)))))
    return tuple(found)


def _expect(r: DocumentReader) -> dict[str, str]:
    found = {}
    keys = r.left()
    if len(keys) > 64:
        r.wrong("field-out-of-bounds", r.path, low=0, high=64)
    for key in sorted(keys):
        value = r.take(key)
        if isinstance(value, bool):
            value = "true" if value else "false"
        text = str(value) if isinstance(value, int) else value
        found[key] = r.attempt("", partial(Reader({key: text}, r.path).text, key, limit=1000))
    return found


def _work_limit(r: DocumentReader) -> int | None:
    """MiB that each member may keep in its work folder."""
    limit = r.optional_amount("sizeLimit", "memory")
    if limit == 0:
        r.wrong("field-out-of-bounds", r.at("sizeLimit"), low=1, high=MAX_QUANTITY)
    r.finish()
    return limit


def _requires(r: DocumentReader) -> tuple[str, ...]:
    found = r.texts("requires", 256)
    for index, text in enumerate(found):
        if requires.parse(text) is None:
            r.wrong("field-invalid", f"{r.at('requires')}[{index}]", expected=requires.SYNTAX)
    return found


def _probe(r: DocumentReader) -> Probe:
    path = r.text("path", _PROBE.path, limit=1024)
    if not path.startswith("/"):
        r.wrong("field-invalid", r.at("path"), expected="a path that begins with /")
    interval = r.span("interval", _PROBE.interval, longest=10 * MINUTE) or _PROBE.interval
    probe = Probe(path, interval, r.integer("failures", _PROBE.failures, low=1, high=1000))
    r.finish()
    return probe


def _sound(text: str, path: str) -> str:
    """Text that UTF-8 can hold."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidError("field-invalid", path=path, expected="text")
    return text


def _inside(text: str, path: str) -> str:
    """A path below the work folder, as written there."""
    pure = PurePosixPath(text)
    if pure.is_absolute() or ".." in pure.parts or str(pure) == ".":
        raise InvalidError("path-outside", path=path, value=shown(text))
    return str(pure)


def _folder(r: DocumentReader) -> str | None:
    """A working directory: absolute, or below the work folder."""
    text = r.optional_text("workingDirectory", limit=1024)
    if text is not None and ".." in PurePosixPath(text).parts:
        r.wrong("path-outside", r.at("workingDirectory"), value=shown(text))
    return text
