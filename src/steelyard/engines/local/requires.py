"""What a member may require of the place where it runs: the closed syntax, and versions compared.

    program:NAME | bin:NAME | NAME     a command on its PATH
    python:MODULE[VERSIONS]            a module of the very interpreter that will run, e.g. numpy>=2,<3
    module:MODULE[VERSIONS]            the same
    lib:SONAME                         a shared library that the loader finds, e.g. lib:libcudart.so.12
    class:gpu | class:npu              the class of the devices that it is given

Read at submission, where a bad entry is refused, and again by the supervisor. Standard library only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PROGRAM, MODULE, LIBRARY, CLASS = "program", "module", "library", "class"
SYNTAX = "bin:NAME | python:MODULE>=1.2 | lib:libNAME.so.N | class:gpu | class:npu"
_KINDS = {"program": PROGRAM, "bin": PROGRAM, "python": MODULE, "module": MODULE, "lib": LIBRARY,
          "class": CLASS}
_PROGRAM = re.compile(r"[A-Za-z0-9_.+/-][A-Za-z0-9_.+/@-]{0,254}")
_MODULE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)(.*)")
_LIBRARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}\.so(?:\.[0-9]{1,9}){0,4}")
_CLASSES = ("gpu", "npu")
_VERSION = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,5}(?:(?:a|b|rc|\.dev|\.post)[0-9]{1,9})?"
_BOUND = re.compile(rf"(>=|<=|==|!=|~=|>|<)\s*({_VERSION})")
#: Numbers are bounded: what is installed may say anything of itself.
_RELEASE = re.compile(
    r"v?(?:[0-9]+!)?([0-9]{1,18}(?:\.[0-9]{1,18}){0,20})(?![0-9])(?:[.-]?(a|b|rc|dev|post)([0-9]{0,18}))?"
)
_ORDER = {"dev": 0, "a": 1, "b": 2, "rc": 3, "": 4, "post": 5}
#: Python modules and libraries that speak to devices of one class only: requiring one says which.
_SPEAKS = (
    ("npu", re.compile(r"torch_npu|mindspore_ascend|acl|libascendcl\.so.*|libhccl\.so.*")),
    ("gpu", re.compile(r"pycuda|cupy|libcuda\.so.*|libcudart\.so.*|libcublas\.so.*|libnccl\.so.*")),
)


class Requirement(NamedTuple):
    """One entry. `bounds`: (operator, version) that all have to hold; of modules only."""

    kind: str
    name: str
    bounds: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name + ",".join(operator + version for operator, version in self.bounds)


def parse(text: str) -> Requirement | None:
    """The requirement that an entry states, None where it states none. Never raises."""
    word, colon, rest = text.partition(":")
    if not colon:
        return Requirement(PROGRAM, text) if _PROGRAM.fullmatch(text) else None
    kind, rest = _KINDS.get(word), rest.strip()
    if kind == PROGRAM and _PROGRAM.fullmatch(rest):
        return Requirement(PROGRAM, rest)
    if kind == LIBRARY and _LIBRARY.fullmatch(rest):
        return Requirement(LIBRARY, rest)
    if kind == CLASS and rest in _CLASSES:
        return Requirement(CLASS, rest)
    return _module(rest) if kind == MODULE else None


def _module(text: str) -> Requirement | None:
    found = _MODULE.fullmatch(text)
    if found is None or len(found[1]) > 200:
        return None
    bounds = []
    for part in found[2].split(",") if found[2].strip() else ():
        bound = _BOUND.fullmatch(part.strip())
        if bound is None or (bound[1] == "~=" and "." not in bound[2]):
            return None
        bounds.append((bound[1], bound[2]))
    return Requirement(MODULE, found[1], tuple(bounds))


def device_class(wanted: Requirement) -> str | None:
    """The class of devices that a requirement means, None where it means none."""
    if wanted.kind == CLASS:
        return wanted.name
    if wanted.kind == PROGRAM:
        return None
    root = wanted.name.partition(".")[0] if wanted.kind == MODULE else wanted.name
    return next((name for name, pattern in _SPEAKS if pattern.fullmatch(root)), None)


def satisfies(version: str, bounds: tuple[tuple[str, str], ...]) -> bool:
    """Whether a version holds to all bounds. One that can't be read holds to none."""
    found = _key(version)
    return not bounds or (found is not None and all(_holds(found, *bound) for bound in bounds))


Key = tuple[tuple[int, ...], int, int]


def _key(version: str) -> Key | None:
    """Release, kind and number, comparable; after PEP 440, of which epochs and local parts are left out."""
    found = _RELEASE.match(version.strip())
    if found is None or found[1] is None:
        return None
    release = [int(part) for part in found[1].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return tuple(release), _ORDER[found[2] or ""], int(found[3] or 0)


def _holds(found: Key, operator: str, text: str) -> bool:
    bound = _key(text)
    if bound is None:
        return False
    if operator == "~=":
        prefix = tuple(int(part) for part in text.split(".")[:-1] if part.isdigit())
        release = found[0] + (0,) * max(0, len(prefix) - len(found[0]))
        return found >= bound and release[: len(prefix)] == prefix
    return {
        ">=": found >= bound, "<=": found <= bound, ">": found > bound, "<": found < bound,
        "==": found == bound, "!=": found != bound,
    }[operator]
