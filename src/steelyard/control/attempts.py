"""From a live attempt to what its engine is told to start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from steelyard.engines.port import AttemptStart, DeviceBinding, MemberStart
from steelyard.model.ids import render
from steelyard.model.resources import DeviceClass
from steelyard.model.units import SECOND
from steelyard.model.workloads import Role
from steelyard.services.live import LiveState
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.store.statements import Row

#: The variable in which a task of an array finds its number.
ARRAY_INDEX = "STEELYARD_ARRAY_INDEX"
#: The variable in which a member of an elastic role finds how many of it were started together.
MEMBERS = "STEELYARD_MEMBERS"
#: The variable that is the same in all members of an attempt of which some could leave it.
GANG = "STEELYARD_GANG"


def attempt_starts(
    state: LiveState,
    install_id: str,
    attempt: LiveAttempt,
    cluster: str,
    resumable: Mapping[tuple[str, int], int],
) -> Iterator[AttemptStart]:
    """What is to be started of an attempt on one cluster: its members together, and those that are apart each
    by itself. `resumable`: by role and index, the like members of the attempt before that were apart."""
    whole = attempt_start(state, install_id, attempt, cluster)
    if not attempt.apart:
        yield whole
        return
    if core := _among(whole, attempt.part_of(attempt.attempt_id)):
        yield replace(whole, members=core)
    for member in attempt.staying:
        if member.apart and member.cluster == cluster:
            before = resumable.get((member.role, member.index))
            resume = whole.resume_from if before is None else render("attempt", before)
            own, limit = _among(whole, [member]), _time_left(attempt, member)
            yield replace(
                whole, attempt_id=member.part_id, members=own, resume_from=resume, time_limit=limit
            )  # fmt: skip


def _time_left(attempt: LiveAttempt, member: LiveMember) -> int | None:
    """Of the attempt's time limit, for one that joined it later."""
    started, limit = attempt.times.get("started"), attempt.spec.time_limit
    if limit is None or started is None or member.joined_at is None:
        return limit
    return max(SECOND, started + limit - member.joined_at)


def _among(whole: AttemptStart, members: list[LiveMember]) -> tuple[MemberStart, ...]:
    wanted = {member.text_id for member in members}
    return tuple(member for member in whole.members if member.member_id in wanted)


def attempt_start(state: LiveState, install_id: str, attempt: LiveAttempt, cluster: str) -> AttemptStart:
    """All members of an attempt that are to run on one cluster."""
    roles = {role.name: role for role in attempt.spec.roles}
    own = Counter(member.role for member in attempt.staying)
    gang = render("attempt", attempt.attempt_id) if attempt.apart else None
    index = attempt.group_index if attempt.spec.array is not None else None
    members = tuple(
        _member(state, roles[member.role], member, _env(roles[member.role], own[member.role], index, gang))
        for member in attempt.staying
        if member.cluster == cluster
    )
    probe = next((role.probe.path for role in attempt.spec.roles if role.probe is not None), None)
    return AttemptStart(
        attempt_id=render("attempt", attempt.attempt_id),
        workload_id=render("workload", attempt.workload_id),
        name=attempt.name,
        number=attempt.number,
        namespace=attempt.namespace,
        project=attempt.project,
        install_id=install_id,
        members=members,
        time_limit=attempt.spec.time_limit,
        grace=attempt.spec.grace,
        artifacts=attempt.spec.artifacts,
        work_limit=attempt.spec.work_limit,
        resume_from=None if attempt.previous_id is None else render("attempt", attempt.previous_id),
        service=attempt.kind == "inference",
        probe_path=probe,
    )


def _env(role: Role, members: int, index: int | None, gang: str | None) -> tuple[tuple[str, str], ...]:
    """The role's own variables, and those that only the attempt can tell."""
    told = () if role.least is None else ((MEMBERS, str(members)),)
    same = () if gang is None else ((GANG, gang),)
    return (*role.env, *told, *same, *(() if index is None else ((ARRAY_INDEX, str(index)),)))


def isolation_of(attempt: LiveAttempt) -> Row:
    """What the leaf of a start says of it: in which mode the members really run, and what that does not
    enforce for any one of them. Empty where the engine does not tell."""
    told = [member.seen.isolation for member in attempt.members if member.seen is not None]
    known = [one for one in told if one is not None]
    if not known:
        return {}
    missing = dict.fromkeys(aspect for one in known for aspect in one.not_enforced)
    modes = sorted({one.mode for one in known})
    return {"isolation": {"mode": ", ".join(modes), "not_enforced": sorted(missing)}}


def _member(
    state: LiveState, role: Role, member: LiveMember, env: tuple[tuple[str, str], ...]
) -> MemberStart:
    bindings = []
    cpu = memory = 0
    for allocation in member.allocations:
        if allocation.device_class is DeviceClass.CPU:
            cpu += allocation.quantity
        elif allocation.device_class is DeviceClass.MEMORY:
            memory += allocation.quantity
        else:
            device = state.devices[allocation.device_id]
            bindings.append(
                DeviceBinding(
                    device.uid,
                    device.device_class,
                    device.family,
                    device.model,
                    allocation.quantity,
                    device.memory,
                )
            )
    return MemberStart(
        member_id=member.text_id,
        role=role.name,
        index=member.index,
        node=member.node,
        command=role.command,
        env=env,
        devices=tuple(bindings),
        cpu=cpu,
        memory=memory,
        image=role.image,
        working_directory=role.working_directory,
        port=role.port,
        requires=role.requires,
        tty=role.tty,
        venv=role.venv,
        pull=role.pull.value,
        expect=dict(role.expect),
    )
