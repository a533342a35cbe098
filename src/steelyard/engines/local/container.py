"""A member in a container: the image stage, what the container is given, and its end.

    inspect     the image is here (or fetched, where the role says so), is the declared one, fits the devices
    create      the container, under a name of its own and with the marks of its owner as labels
    init        its first process exists and waits; the member's control groups take it in
    start       behind the gate of launch.py: only now the program is executed

The wait between `init` and `start` is what lets the process be noted, and bounded, before it executes
anything, as without a container. Its name stands in container.json before it is made: whoever clears up
after the member removes what is there of that name. Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from steelyard.engines.local import cgroups, enclosure, podman, procfs
from steelyard.engines.local.files import is_real_folder, read_json, write_json
from steelyard.engines.local.isolation import HOST, PRIVATE, wished
from steelyard.engines.local.journal import log
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.podman import Refusal

NOTE = "container.json"
#: Which devices an image is made for: gpu, npu or cpu.
CLASS_LABEL = "org.steelyard.class"
LABELS = {"install": "org.steelyard.install", "attempt": "org.steelyard.attempt"}
MEMBER_LABEL = "org.steelyard.member"
MISSING = "missing"
#: Variables by which an image shows the family of devices that it is made for.
_FAMILIES = {
    "gpu": ("CUDA_VERSION", "NVIDIA_VISIBLE_DEVICES"),
    "npu": ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
}
#: A user's processes are bounded by their control group; podman can't hand on a limit above this one.
_MOST_PROCESSES = 32_768
_LEAST_SHARED = 64
_REMOVALS = 3


class Box(NamedTuple):
    """What a container is made of. `mounts`: (folder, path inside, read only); `files`: of bound devices."""

    name: str
    image: str
    labels: tuple[tuple[str, str], ...]
    env_file: str
    pid_file: str
    user: int | None
    groups: tuple[int, ...]
    network: str
    mounts: tuple[tuple[str, str, bool], ...]
    files: tuple[str, ...]
    limits: tuple[tuple[str, int, int], ...]  # (name, soft, hard), -1: none
    shared_memory: int  # MiB
    folder: str
    command: tuple[str, ...]
    rootfs: bool = False  # `image` is a folder


class Given(NamedTuple):
    """What a member is given where it runs: its environment, where it starts, the work folder that it goes on
    from, its limits."""

    env: Mapping[str, str]
    folder: str
    resume: str | None
    files_limit: tuple[int, int]
    data_limit: int | None


def create_words(box: Box) -> list[str]:
    """The arguments of `podman create`. No variable of the member stands among them."""
    words = ["create", "--replace", "--pull=never", "--name", box.name, "--log-driver=none"]
    words += ["--systemd=false", "--http-proxy=false", "--image-volume=ignore"]
    words += ["--no-healthcheck", "--entrypoint="]
    words += ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]
    words += [f"--network={'none' if box.network == PRIVATE else 'host'}", f"--shm-size={box.shared_memory}m"]
    words += [f"--label={key}={value}" for key, value in box.labels]
    words += [f"--ulimit={name}={soft}:{hard}" for name, soft, hard in box.limits]
    words += ["--userns=keep-id"] if box.user is None and os.geteuid() != 0 else []
    words += [] if box.user is None else [f"--user={box.user}:{box.user}"]
    words += [f"--group-add={group}" for group in box.groups]
    words += [f"--device={path}" for path in box.files]
    for folder, path, read_only in box.mounts:
        words.append(f"--mount=type=bind,src={folder},dst={path}" + (",ro=true" if read_only else ""))
    words += [f"--env-file={box.env_file}", f"--pidfile={box.pid_file}", f"--workdir={box.folder}"]
    return [*words, *(["--rootfs"] if box.rootfs else []), box.image, *box.command]


def env_lines(env: Mapping[str, str]) -> str:
    """The text of an --env-file, which has a line for each: ValueError names one that takes more."""
    for key, value in env.items():
        if "\n" in value or "\r" in value:
            raise ValueError(key)
    return "".join(f"{key}={value}\n" for key, value in env.items())


def limits_of(files: tuple[int, int], data: int | None) -> tuple[tuple[str, int, int], ...]:
    """The rlimits of a container's programs: podman's own would be above what it may set."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = _MOST_PROCESSES if most == resource.RLIM_INFINITY else min(most, _MOST_PROCESSES)
    found = [("nofile", *files), ("nproc", processes, processes), ("core", 0, 0)]
    return tuple(found if data is None else [*found, ("data", data, data)])


def mountable(path: str) -> bool:
    """Whether a path can stand in a --mount, which is a list with commas."""
    return path.isprintable() and not set(path) & set(',":')


# ---- the image stage


def settle_image(
    flags: Sequence[str], member: Mapping[str, Any], stopped: Callable[[], bool]
) -> podman.Image | Refusal:
    """The image that a member is to run in. Raises OSError."""
    name = str(member["image"])
    bare, at, digest = name.partition("@")
    if not bare or name.startswith("-"):
        return Refusal("image-not-found", name[:200])
    found = podman.look(flags, name)
    here = podman.look(flags, bare) if found is None and at else None
    if isinstance(here, podman.Image) and digest in here.digests:
        found = here
    if found is None and member.get("pull") == MISSING:
        found = podman.pull(flags, name, stopped) or podman.look(flags, name)
    if found is None:
        found = Refusal("image-not-found", name[:200])
    if isinstance(found, Refusal) and found.code == "image-not-found" and isinstance(here, podman.Image):
        return Refusal("image-digest-mismatch", f"{digest}; here: {', '.join(here.digests)}"[:200])
    if isinstance(found, podman.Image) and at and digest not in found.digests:
        return Refusal("image-digest-mismatch", name[:200])
    return found if isinstance(found, Refusal) else mismatch(found, member) or found


def mismatch(image: podman.Image, member: Mapping[str, Any]) -> Refusal | None:
    """An image that is made for other devices than the member was given. What it declares by its label
    counts; else, if devices are given, the variables of another family without those of its own."""
    given = {str(device.get("class")) for device in member.get("devices") or ()} & set(_FAMILIES)
    said = image.labels.get(CLASS_LABEL)
    if said is not None:
        if said == "cpu" or said in given:
            return None
        text = f"{CLASS_LABEL}={said}; given: {', '.join(sorted(given)) or '-'}"
        return Refusal("image-class-mismatch", text[:200])
    shown = {family: [name for name in names if name in image.env] for family, names in _FAMILIES.items()}
    if not given or any(shown[family] for family in given):
        return None
    others = [name for family, names in shown.items() if family not in given for name in names]
    if not others:
        return None
    return Refusal("image-class-mismatch", f"{others[0]}; given: {', '.join(sorted(given))}"[:200])


# ---- a container's life


def flags_of(attempt: Mapping[str, Any]) -> list[str] | str:
    """What this machine's podman needs, as the runner found it; else why there is none."""
    said = (attempt.get("isolation") or {}).get("container") or {}
    flags = said.get("flags")
    if isinstance(flags, list) and all(isinstance(word, str) for word in flags):
        return flags
    return str(said.get("why", "podman is not used by this cluster"))


def make(layout: Layout, flags: Sequence[str], member: str, box: Box, groups: Sequence[str]) -> int | Refusal:
    """The container with its first process, which waits, in the member's control groups: its pid. Else
    why not, by the code of the stage that it belongs to. Raises OSError."""
    write_json(layout.notes(member, NOTE), {"v": 1, "name": box.name, "flags": list(flags)})
    return bring_up(flags, box, groups)


def bring_up(
    flags: Sequence[str], box: Box, groups: Sequence[str], seconds: float = podman.CALL_SECONDS
) -> int | Refusal:
    """`create` and `init`. Raises OSError, as where podman does not answer in so many seconds each."""
    with suppress(FileNotFoundError):
        os.unlink(box.pid_file)
    for words in (create_words(box), ["init", box.name]):
        said = podman.call(podman.command(flags, *words), seconds)
        if said.code is None:
            raise OSError(errno.EAGAIN, f"podman {words[0]} does not answer")
        if said.code != 0:
            return refusal_of_making(said)
    with open(box.pid_file, encoding="ascii") as file:
        pid = int(file.read(20) or 0)
    cgroups.put(groups, pid)
    return pid


def refusal_of_making(said: podman.Answer) -> Refusal:
    """What a container that could not be made means: the program, the folder, or podman itself."""
    text = said.error
    if "workdir" in text and "does not exist" in text:
        return Refusal("working-directory-missing", said.why)
    if "executable file not found" in text or "no such file or directory: OCI runtime" in text:
        return Refusal("command-not-found", said.why)
    if "command that was not found" in text:
        return Refusal("command-not-found", said.why)
    if "permission denied" in text and "exec" in text:
        return Refusal("not-executable", said.why)
    return Refusal("isolation-failed", said.why)


def never_ran(flags: Sequence[str], name: str) -> bool:
    """Whether podman never started a container that is still there: then the exit code is its own."""
    words = ("container", "inspect", "--format", "{{.State.StartedAt.Unix}}", name)
    with suppress(OSError):
        said = podman.call(podman.command(flags, *words))
        return said.code == 0 and said.out.strip().startswith("-")
    return False


def remove(layout: Layout, member: str) -> None:
    """Ends and removes a member's container, if one was noted. What can't be removed is left to the next
    look, which finds it."""
    note = read_json(layout.notes(member, NOTE))
    if note is None or not isinstance(note.get("name"), str):
        return
    flags = [str(word) for word in note.get("flags") or ()]
    for _ in range(_REMOVALS):
        with suppress(OSError):
            said = podman.call(podman.command(flags, "rm", "--force", "--ignore", "--time=0", note["name"]))
            if said.code == 0:
                return
            log(f"{member}: its container stays: {said.why}")


def left(install: str) -> dict[str, str] | str:
    """The containers of an install that are there now: member → name and state; else why that can't be
    told."""
    label = f"--filter=label={LABELS['install']}={install}"
    try:
        said = podman.call(podman.command((), "ps", "--all", label, "--format=json"))
        if said.code != 0:
            return said.why
        rows = json.loads(said.out or "[]")
        return {str(row["Labels"][MEMBER_LABEL]): f"{row['Names'][0]} ({row['State']})" for row in rows}
    except OSError as failed:
        return str(failed.strerror)
    except (ValueError, KeyError, IndexError, TypeError):
        return "podman's answer can't be read"


def term_is_the_end(pid: int) -> bool:
    """Whether TERM would end this process anywhere but in a container, where it is the first one and the
    kernel drops what it does not handle."""
    return not procfs.catches(pid, signal.SIGTERM) and not procfs.ignores(pid, signal.SIGTERM)


def box_of(
    layout: Layout, attempt: Mapping[str, Any], member: Mapping[str, Any], image: str, given: Given
) -> Box:
    """What a member's container is made of. Writes its variables, which only root and the server's user may
    read. Raises OSError; ValueError names a variable that can't be handed on."""
    name = str(member["member"])
    work = layout.member_work(attempt["attempt"], name)
    temporary = os.path.join(work, "tmp")
    _, network, shared = wished(attempt)
    if not (is_real_folder(work) and is_real_folder(temporary)):  # podman would follow a link as root
        raise OSError(errno.ELOOP, "the work folder is a link")
    resume = () if given.resume is None else (given.resume,)
    readable = [path for path in (*shared, *resume) if os.path.isdir(path)]
    mounts = [(work, work, False), (temporary, "/tmp", False), (temporary, "/var/tmp", False)]
    marks = [(label, str(attempt[key])) for key, label in LABELS.items()]
    files = [str(path) for device in member.get("devices") or () for path in device.get("files", ())]
    return Box(
        name=f"steelyard-{name}",
        image=image,
        labels=(*marks, (MEMBER_LABEL, name)),
        env_file=_write_env(layout, attempt, member, given.env),
        pid_file=layout.notes(name, "container.pid"),
        user=enclosure.user_of(attempt),
        groups=enclosure.groups_of(files),
        network=network if member["port"] is None else HOST,
        mounts=(*mounts, *((path, path, True) for path in dict.fromkeys(readable) if mountable(path))),
        files=tuple(files),
        limits=limits_of(given.files_limit, given.data_limit),
        shared_memory=max(_LEAST_SHARED, int(member["memory"])),
        folder=given.folder,
        command=tuple(member["command"]),
    )


def _write_env(
    layout: Layout, attempt: Mapping[str, Any], member: Mapping[str, Any], env: Mapping[str, str]
) -> str:
    """The PATH of the machine means nothing in an image: only one that the submitter gave is handed on."""
    named = dict([*member["env"], *member["fixed"]])
    text = env_lines({key: value for key, value in env.items() if key != "PATH" or key in named})
    path = layout.notes(member["member"], "container.env")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def why_not() -> str | None:
    """Why there can be no containers, as far as that is seen without making one."""
    return None if podman.find() is not None else "podman is not installed"
