"""The supervisor of one member: outlives the runner, waits for the program, writes how it ended.

A shim holds the exclusive lock on MEMBER/lock from before it is forked until it ends; its child holds it,
too, until it executes the program. So a free lock means: nobody is left who could still execute it.

What is on disk, and what a runner that comes anew concludes (`no` is also said of a torn file):

    claim  lock  run.json's child  exit.json  swept  meaning                       the runner then
    no     -     -                 -          -      never accepted                nothing; start runs it
    yes    free  no                no         -      died before the gate opened:  same boot: starts it;
                                                     never executed                other boot: sweeps, lost
    yes    held  any               no         -      a shim is at work             watches it
    yes    free  yes               no         -      the shim died after the gate  sweeps; the status is
                                                     opened: executed, no status   unknown for ever: lost
    yes    held  any               yes        -      ended, the rest being ended   waits for the lock
    yes    free  any               yes        no     ended, died while clearing    sweeps
    yes    free  any               yes        yes    ended and cleared             nothing; forget drops it
    no     -     -                 -          -      and a work folder: forgotten  start answers `already`

run.json is written, with pid and start time of the child, before the gate opens (launch.py); exit.json by
rename and fsync before anyone is told. After another boot `no child` proves nothing, since a torn file is
possible, so such a member is never started again. `executes` in it stands for a child: modules are asked for,
or the program is started without a gate and may run before its child is noted.

To sweep: end every process that carries the member's mark or is in its control groups, remove its temporary
files, and, where nobody wrote a status, write that there is none. Standard library only.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from steelyard.engines.local import (
    cgroups,
    console,
    enclosure,
    ending,
    environment,
    isolation,
    journal,
    launch,
    procfs,
    quota,
)
from steelyard.engines.local.crate import Crate
from steelyard.engines.local.environment import Failure
from steelyard.engines.local.files import read_json, write_once
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.runnote import RunNote

#: What the runner tells a shim by signal. A stop stands in stop.json; its signal only says: look.
LOOK = signal.SIGUSR1
CHECKPOINT = signal.SIGRTMIN + 3
TERM = signal.SIGRTMIN + 4
KILL = signal.SIGRTMIN + 5
#: By what members are told.
TOLD = {"checkpoint": CHECKPOINT, "term": TERM, "kill": KILL}
WATCHED = frozenset(
    {signal.SIGCHLD, LOOK, CHECKPOINT, TERM, KILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
)
#: What a program that knows checkpoints is told; others never get it, for it would end them.
PROGRAM_CHECKPOINT = signal.SIGUSR1

_SECOND = 1_000_000_000
_AGAIN = _SECOND // 20
_SOON = 0.005  # seconds
_DEFAULT_GRACE = 10_000_000
#: Ended by KILL, itself or as a shell says it of its child.
_KILLED = (-int(signal.SIGKILL), 128 + int(signal.SIGKILL))


class Shim:
    """One member's supervisor. `attempt` and `member` are the claim's records."""

    def __init__(
        self, layout: Layout, attempt: dict[str, Any], member: dict[str, Any],
        hierarchy: cgroups.Hierarchy, files_limit: tuple[int, int],
    ) -> None:
        self.layout = layout
        self.attempt = attempt
        self.member = member
        self.hierarchy = hierarchy
        self.groups = cgroups.named(hierarchy, member["member"])
        self.mode = hierarchy.mode
        self.files_limit = files_limit
        self.id: str = member["member"]
        self.note = RunNote(layout, attempt, self.id)
        self.child: int | None = None
        self.begun: int | None = None  # the child's start time
        self.plainly = False  # it was executed without a gate
        self.gated: launch.Gated | None = None
        self.status: int | None = None
        self.started: int | None = None
        self.ended: int | None = None
        self.mode_of_isolation = isolation.mode_of(attempt, member)
        self.crate: Crate | None = None  # its container, once that is there
        self.timed_out = False
        self.console: int | None = None  # the process that has the other end of its terminal
        self.gauge: quota.Gauge | None = None
        self.over: str | None = None  # what its work folder held when that was too much
        self.stop_requested = False
        self.kill_at: int | None = None  # monotonic ns
        self.limit_at: int | None = None

    # ---- the member's life

    def run(self) -> None:
        """From the environment stage to the last trace removed."""
        isolated = self.mode_of_isolation != isolation.NONE
        if isolated or not self.groups or environment.may_take_long(self.member):
            self._note_stage("environment")
        self._make_groups()
        failure = self._start()
        if self.child is not None and failure is None:
            over = self._ends_soon()
            if self.plainly:
                self._note_runs(self.child, over)
            if not over:
                self._hint()
                self._wait()
            failure = self.crate.failure_after(self.status) if self.crate is not None else None
        if self.console is not None:
            console.drain(self.console)  # before it is said that the log has ended
        self._write_exit(failure)
        if self.crate is not None:
            self._hint()
        ending.clear(self.layout, self.attempt["attempt"], self.id, self.groups, self._hint)

    def _make_groups(self) -> None:
        """A shim that dies in between leaves none that nobody knows of: they have the member's name."""
        try:
            cgroups.make(self.hierarchy, self.id, self.member["cpu"], self.member["memory"])
        except OSError as failed:
            journal.log(f"{self.id}: no control group: {failed}")
            cgroups.remove(self.groups)
            self.groups, self.mode = (), "rlimit"
            self._note_stage("environment")

    def _start(self) -> Failure | None:
        log = os.open(
            self.layout.member_log(self.id),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
        )
        try:
            user = enclosure.user_of(self.attempt)
            if user is not None:
                os.fchown(log, user, user)  # a program may open its standard output anew
                enclosure.hand_over(self.layout, self.attempt["resume_from"], user)
            return self._prepare(self._program(log))
        finally:
            os.close(log)  # a log that is removed to make room must give its room back

    def _prepare(self, program: launch.Program) -> Failure | None:
        command = self.member["command"]
        if self.mode_of_isolation == isolation.CONTAINER:
            return self._prepare_container(program)
        if environment.executes(self.member):  # then nobody else does it once more
            self._note_stage("environment", executes=True)
        failure = environment.check_hidden(self.member, program, command)
        failure = failure or environment.check(self.member, program)
        if failure is not None:
            return failure
        path, code = launch.find_program(command[0] if command else "", program.env["PATH"], program.folder)
        if path is None:
            return Failure("launch", code, command[0][:200] if command else "")
        failure = environment.check_hidden(self.member, program, [path]) or environment.check_program(path)
        if failure is not None:
            return failure
        self._look()
        if self.stop_requested:
            return None
        return self._launch(program._replace(path=path))

    def _prepare_container(self, program: launch.Program) -> Failure | None:
        self._note_stage("image")
        crate = Crate(self.layout, self.attempt, self.member, self.groups, self._is_stopped)
        failure = crate.settle() or environment.check(self.member, program)
        if failure is None and not self._is_stopped():
            failure = crate.make(program)
        if failure is not None or self._is_stopped():
            return None if self.stop_requested else failure
        self.crate = crate
        return self._launch(crate.start(program))

    def _is_stopped(self) -> bool:
        self._look()
        return self.stop_requested

    def _program(self, log: int) -> launch.Program:
        memory = self.member["memory"]
        limit = self.mode == "rlimit" and memory >= cgroups.MIN_RLIMIT_MEMORY
        env = environment.compose(self.layout, self.attempt, self.member)
        return launch.Program(
            path="",
            arguments=list(self.member["command"]),
            env=env,
            folder=environment.folder(self.layout, self.attempt, self.member),
            output=log,
            groups=self.groups,
            data_limit=memory << 20 if limit else None,
            files_limit=self.files_limit,
            confinement=enclosure.of(self.layout, self.attempt, self.member, env),
        )

    def _launch(self, program: launch.Program) -> Failure | None:
        if self.member.get("tty"):
            user = enclosure.user_of(self.attempt)
            self.console, slave = console.start(program.output, self.layout.notes(self.id), user)
            try:
                return self._execute(program._replace(output=slave, terminal=True))
            finally:
                os.close(slave)  # the console sees the end once nobody has it open
        return self._execute(program)

    def _execute(self, program: launch.Program) -> Failure | None:
        homes = cgroups.homes(self.groups) if launch.is_plain(program) and self.crate is None else None
        failed = self._execute_gated(program) if homes is None else self._execute_plainly(program, homes)
        if failed is None:
            limit = self.attempt["time_limit"]
            self.limit_at = None if limit is None else time.monotonic_ns() + limit * 1000
            self.gauge = self._make_gauge()
            return None
        self.started = None
        if launch.NOT_CONFINED in str(failed):
            return Failure("environment", "isolation-failed", str(failed)[:200])
        code = "not-executable" if failed.errno in (8, 13, 26) else "start-failed"  # ENOEXEC, EACCES, ETXTBSY
        return Failure("launch", code, str(failed)[:200])

    def _ends_soon(self) -> bool:
        """Gives the program a moment: of one that is over by then, only its end is worth being told."""
        told = signal.sigtimedwait(WATCHED, _SOON)
        if told is not None:
            self._told(told.si_signo)
        return self._reaped()

    def _execute_gated(self, program: launch.Program) -> OSError | None:
        gated = launch.spawn(program)
        self.child, self.gated = gated.pid, gated
        self.started = ending.now()
        self._note_runs(gated.pid if self.crate is None else self.crate.pid)
        failed = launch.open_gate(gated)
        if failed is not None:
            os.waitpid(gated.pid, 0)
        return failed

    def _execute_plainly(self, program: launch.Program, homes: tuple[str, ...]) -> OSError | None:
        if not self.note.executes:
            self._note_stage("launch", executes=True)
        self.started = ending.now()
        try:
            gated = launch.spawn_plainly(program, homes)
        except OSError as failed:
            return failed
        self.child, self.gated, self.plainly = gated.pid, gated, True
        self.begun = procfs.start_time(gated.pid)
        return None

    def _wait(self) -> None:
        while not self._reaped():
            due = [at for at in (self.kill_at, self.limit_at) if at is not None]
            if self.gauge is not None:
                due.append(int(self.gauge.due * _SECOND))
            left = max(0, min(due) - time.monotonic_ns()) / _SECOND if due else 3600.0
            told = signal.sigtimedwait(WATCHED, left)
            if told is not None:
                self._told(told.si_signo)
            self._timers()

    def _reaped(self) -> bool:
        """Waits for whatever ended; True once the program itself has."""
        while self.status is None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # the program can't be waited for: nobody will ever know
                return True
            if pid == 0:
                return False
            ending.note_gone(pid)
            if pid == self.console:
                self.console = None
            if pid == self.child and self.gated is not None:
                self.status = launch.true_status(self.gated, status)
                self.ended = ending.now()
        return True

    def _told(self, number: int) -> None:
        if number == CHECKPOINT:
            for process in self._tree():
                if procfs.catches(process, PROGRAM_CHECKPOINT):
                    ending.kill(process, PROGRAM_CHECKPOINT)
        elif number == LOOK:
            self._look()
        elif number == TERM:
            self.stop_requested = True
            self._to_tree(signal.SIGTERM)
        elif number == KILL:
            self.stop_requested = True
            self._to_tree(signal.SIGKILL)
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stop(self.attempt["grace"])

    def _timers(self) -> None:
        at = time.monotonic_ns()
        if self.limit_at is not None and at >= self.limit_at:
            self.limit_at = None
            self.timed_out = not self.stop_requested
            self._end_within(self.attempt["grace"])
        if self.gauge is not None:
            self._measure(self.gauge)
        if self.kill_at is not None and at >= self.kill_at:
            self._to_tree(signal.SIGKILL)
            self.kill_at = at + _AGAIN  # a process forked meanwhile is ended the next time

    def _make_gauge(self) -> quota.Gauge | None:
        """What watches the work folder, where it has a limit."""
        limit = self.attempt.get("work_limit")
        work = self.layout.member_work(self.attempt["attempt"], self.id)
        return quota.Gauge(work, limit) if isinstance(limit, int) else None

    def _measure(self, gauge: quota.Gauge) -> None:
        used = gauge.step()
        if used is not None:
            limit = self.attempt["work_limit"]
            seen = f"{used} MiB" if used < quota.TOO_DEEP else "deeper than can be measured"
            self.over = f"{seen}, limit {limit} MiB"
            self.gauge = None
            self._end_within(self.attempt["grace"])

    def _look(self) -> None:
        order = read_json(self.layout.notes(self.id, "stop.json"))
        if order is not None:
            grace = order.get("grace")
            self._stop(grace if isinstance(grace, int) else _DEFAULT_GRACE)

    def _stop(self, grace: int) -> None:
        self.stop_requested = True
        self._end_within(grace)

    def _end_within(self, grace: int) -> None:
        """TERM now, KILL after `grace` µs; told again, the earlier end counts."""
        at = time.monotonic_ns() + max(0, grace) * 1000
        if self.child is not None and (self.kill_at is None or grace <= 0):
            self._to_tree(signal.SIGTERM)
        self.kill_at = at if self.kill_at is None else min(at, self.kill_at)

    # ---- processes

    def _tree(self) -> set[int]:
        grouped = cgroups.members(self.groups)
        if not self.groups:
            grouped = {process.pid for process in procfs.descendants(os.getpid(), procfs.processes())}
            grouped -= set() if self.crate is None else self.crate.outside(grouped)
        return grouped - {os.getpid(), self.console}

    def _to_tree(self, number: int) -> None:
        if number == signal.SIGKILL:
            cgroups.kill(self.groups)
        for process in self._tree():
            ending.kill(process, number)
        if self.crate is not None:
            self.crate.told(number, self.child)

    # ---- notes

    def _note_stage(self, stage: str, executes: bool = False) -> None:
        self.note.stage(stage, self.groups, self.mode, executes=executes)

    def _note_runs(self, pid: int, over: bool = False) -> None:
        begun = self.begun if self.plainly else procfs.start_time(pid)
        child = pid, begun
        self.note.runs(self.groups, self.mode, child, self.started, over=over, executed=self.plainly)

    def _write_exit(self, failure: Failure | None) -> None:
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        ended = max(self.ended or ending.now(), self.started or 0)  # the clock may have been set back
        if failure is not None and failure.code == "start-failed" and self.stop_requested:
            failure = None  # a start that was broken off has not failed
        if failure is None and code in _KILLED and cgroups.oom_kills(self.groups):
            failure = Failure("application", "oom-killed", f"{self.member['memory']} MiB")
        if failure is None and self.over is not None:
            failure = Failure("policy", "work-folder-quota", self.over)
        if failure is None and self.timed_out:
            failure = Failure("policy", "timed-out", "")
        note = ending.exit_note(
            failure, self.started, ended, code, stop_requested=self.stop_requested, timed_out=self.timed_out
        )
        ending.insist(lambda: write_once(self.layout.notes(self.id, "exit.json"), note), self._hint)

    def _hint(self) -> None:
        ending.hint(self.layout, self.id)
