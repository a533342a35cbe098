"""What a member finds when it starts, and why some do not: environment, files, ports, failures by stage."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import DeviceBinding, EngineUnavailable, MemberPhase, StartState
from steelyard.model.resources import DeviceClass
from tests.support.containers import code_of_an_absent_image
from tests.support.local_engine import attempt, make_local_engine, member, sh, wait_ended, wait_for, wait_free

SHOW = "import json,os; print(json.dumps(dict(os.environ)))"
SERVE = """
import http.server, os, time
time.sleep(0.3)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(os.environ["STEELYARD_PORT"])), H).serve_forever()
"""


def shown(engine: LocalEngine, member_id: str) -> dict[str, str]:
    assert wait_ended(engine, member_id).exit_code == 0
    found: dict[str, str] = json.loads(engine.logs(member_id, 0, 1 << 20).data)
    return found


def test_the_servers_environment_does_not_reach_a_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: LocalEngine
) -> None:
    monkeypatch.setenv("STEELYARD_TOKEN", "secret")
    monkeypatch.setenv("SOME_PASSWORD", "secret")
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", SHOW), env=(("MINE", "yes"),)))])
    env = shown(engine, "mb_1")
    assert env["MINE"] == "yes"
    assert "secret" not in env.values()
    assert env["STEELYARD_MEMBER"] == "mb_1"
    assert (env["STEELYARD_ROLE"], env["STEELYARD_INDEX"]) == ("main", "0")
    work = str(tmp_path / "data/work/at_1/mb_1")
    assert (env["HOME"], env["TMPDIR"]) == (work, work + "/tmp")
    assert env["STEELYARD_ARTIFACTS"] == work + "/artifacts"


def test_a_member_sees_its_devices_and_no_others(engine: LocalEngine) -> None:
    gpu = DeviceBinding("GPU-7", DeviceClass.GPU, "nvidia", "A100", 1000)
    hide = (("CUDA_VISIBLE_DEVICES", "0,1,2,3"),)  # what the submitter says of devices does not count
    engine.start([
        attempt("at_1", member("mb_1", (sys.executable, "-c", SHOW), devices=(gpu,))),
        attempt("at_2", member("mb_2", (sys.executable, "-c", SHOW), env=hide)),
    ])
    assert shown(engine, "mb_1")["CUDA_VISIBLE_DEVICES"] == "GPU-7"
    assert shown(engine, "mb_2")["CUDA_VISIBLE_DEVICES"] == ""


def test_a_device_its_runtime_can_not_be_told_of_is_refused(engine: LocalEngine) -> None:
    odd = DeviceBinding(None, DeviceClass.NPU, "ascend", "910B", 1000)
    reply = engine.start([attempt("at_1", member("mb_1", ("true",), devices=(odd,)))])[0]
    assert (reply.state, reply.code) == (StartState.REFUSED, "device-not-nameable")
    assert engine.observe(None).members == ()


@pytest.mark.parametrize(
    ("fields", "command", "stage", "code"),
    [
        ({"image": "localhost/steelyard-none"}, ("true",), "image", code_of_an_absent_image()),
        ({"venv": "/no/such/folder"}, ("true",), "environment", "program-missing"),
        ({"working_directory": "/no/such/folder"}, ("true",), "environment", "working-directory-missing"),
        ({"requires": ("no-such-program",)}, ("true",), "environment", "program-missing"),
        ({"requires": ("python:no_such_module", "sh")}, ("true",), "environment", "module-missing"),
        ({"requires": ("python:json; import os",)}, ("true",), "environment", "module-missing"),
        ({}, ("no-such-command",), "launch", "command-not-found"),
        ({}, ("/no/such/command",), "launch", "command-not-found"),
        ({}, ("",), "launch", "command-not-found"),
        ({}, (), "launch", "command-not-found"),
        ({}, ("/etc/passwd",), "launch", "not-executable"),
        ({}, ("/tmp",), "launch", "not-executable"),
        ({}, ("/bin/true", "x" * 200_000), "launch", "start-failed"),
    ],
)
def test_a_start_that_fails_says_at_which_stage(
    engine: LocalEngine, fields: dict[str, object], command: tuple[str, ...], stage: str, code: str
) -> None:
    engine.start([attempt("at_1", member("mb_1", command, **fields))])
    seen = wait_ended(engine, "mb_1")
    assert (seen.failure_stage, seen.failure) == (stage, code)
    assert (seen.started_at, seen.exit_code, seen.exit_signal) == (None, None, None)
    wait_free(engine, "at_1")


def test_the_programs_of_a_python_environment_come_first(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    program = tmp_path / "venv/bin/id"
    program.write_text("#!/bin/sh\necho mine $VIRTUAL_ENV")
    program.chmod(0o755)
    engine.start([attempt("at_1", member("mb_1", ("id",), venv=str(tmp_path / "venv")))])
    assert wait_ended(engine, "mb_1").exit_code == 0
    assert engine.logs("mb_1", 0, 999).data.decode() == f"mine {tmp_path}/venv\n"


def test_a_file_without_an_interpreter_is_not_executable(engine: LocalEngine, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("just text")
    program.chmod(0o755)
    engine.start([attempt("at_1", member("mb_1", (str(program),)))])
    assert wait_ended(engine, "mb_1").failure == "not-executable"


def test_what_is_required_and_there_lets_the_program_run(engine: LocalEngine) -> None:
    needs = ("sh", "program:env", "python:json", "python:os.path")
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", "print(1)"), requires=needs))])
    assert wait_ended(engine, "mb_1").exit_code == 0


def test_the_interpreter_of_the_command_is_asked_for_its_modules(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("")
    fields = {"requires": ("python:only_here",), "env": (("PYTHONPATH", str(tmp_path)),)}
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", "import only_here"), **fields))])
    assert wait_ended(engine, "mb_1").exit_code == 0


def test_hostile_ids_and_texts_are_refused_and_make_no_file(engine: LocalEngine, tmp_path: Path) -> None:
    bad = [
        attempt("../../x", member("mb_1", ("true",))),
        attempt("at_1", member("../x", ("true",))),
        attempt("at_2", member("mb_2", ("true",)), resume_from="../.."),
        attempt("at_3", member("mb_3", ("a\0b",))),
        attempt("at_4", member("mb_4", ("true",), env=(("A=B", "c"),))),
        attempt("at_5", member("mb_5", ("\ud800",))),
        attempt("at_6", member("mb_6", ("true",)), service=True, probe_path="/x HTTP/1.1\r\nEvil: 1"),
        attempt("at_7"),
        attempt("at_8", member("mb_8", ("true",)), member("mb_8", ("true",))),
    ]
    assert {reply.state for reply in engine.start(bad)} == {StartState.REFUSED}
    assert os.listdir(tmp_path / "data/local/claims") == []
    assert engine.observe(None).members == ()


def test_a_service_gets_a_port_and_is_ready_once_it_answers(engine: LocalEngine) -> None:
    serving = member("mb_1", (sys.executable, "-c", SERVE), port=True)
    engine.start([attempt("at_1", serving, service=True, probe_path="/healthz")])
    seen = wait_for(engine, "mb_1", lambda one: one.phase is MemberPhase.RUNNING)
    assert seen.ready is False
    seen = wait_for(engine, "mb_1", lambda one: one.ready)
    assert seen.ready_at is not None
    assert seen.started_at is not None
    assert seen.ready_at > seen.started_at
    assert seen.endpoint is not None
    assert seen.endpoint == engine.endpoint("mb_1")
    assert seen.endpoint.startswith("127.0.0.1:")
    assert ("port 2" in str(engine.probe_release(["at_1"])[0].residue)) or "port 3" in str(
        engine.probe_release(["at_1"])[0].residue
    )
    engine.stop(["at_1"], 1_000_000)
    assert wait_ended(engine, "mb_1").endpoint is None
    wait_free(engine, "at_1")
    assert dict(engine.probe_release(["at_1"])[0].checks)["port"] == "closed"


def test_a_service_whose_probe_fails_is_not_ready(engine: LocalEngine) -> None:
    serving = member("mb_1", (sys.executable, "-c", SERVE), port=True)
    engine.start([attempt("at_1", serving, service=True, probe_path="/other")])
    wait_for(engine, "mb_1", lambda one: any("port" in r for r in engine.probe_release(["at_1"])[0].residue))
    assert not engine.observe(None).members[0].ready


def test_services_get_different_ports(engine: LocalEngine) -> None:
    engine.start([sh(f"at_{i}", "echo $STEELYARD_PORT", port=True) for i in range(5)])
    for i in range(5):
        wait_ended(engine, f"mb_{i}")
    assert len({engine.logs(f"mb_{i}", 0, 99).data for i in range(5)}) == 5


def test_the_next_attempt_finds_the_work_of_the_one_before(engine: LocalEngine) -> None:
    one, two = (("/bin/sh", "-c", f"echo {i} > state") for i in (1, 2))
    engine.start([attempt("at_1", member("mb_1", one, index=0), member("mb_2", two, index=1))])
    for name in ("mb_1", "mb_2"):
        wait_ended(engine, name)
    wait_free(engine, "at_1")
    engine.forget(["at_1"])
    show = ("/bin/sh", "-c", "cat $STEELYARD_RESUME_DIR/state")
    again = attempt("at_2", member("mb_3", show, index=1), number=2, resume_from="at_1")
    engine.start([again])
    assert wait_ended(engine, "mb_3").exit_code == 0
    assert engine.logs("mb_3", 0, 99).data == b"2\n"


def test_where_no_work_was_left_nothing_is_named_to_go_on_from(engine: LocalEngine) -> None:
    engine.start([sh("at_3", 'echo "<$STEELYARD_RESUME_DIR>"', resume_from="at_9")])
    wait_ended(engine, "mb_3")
    assert engine.logs("mb_3", 0, 99).data == b"<>\n"


def test_a_log_is_bytes_as_written_and_may_be_read_from_its_end(engine: LocalEngine) -> None:
    engine.start([sh("at_1", r"printf '\000\377\033[31m'; printf err >&2")])
    wait_ended(engine, "mb_1")
    chunk = engine.logs("mb_1", 0, 4)
    assert (chunk.data, chunk.next_offset, chunk.end) == (b"\0\xff\x1b[", 4, False)
    rest = engine.logs("mb_1", chunk.next_offset, 100)
    assert (rest.data, rest.end) == (b"31merr", True)
    assert engine.logs("mb_1", -3, 100).data == b"err"
    assert engine.logs("mb_1", 5000, 100).data == b""


def test_a_log_that_is_a_link_is_not_followed(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "exit 0")])
    wait_ended(engine, "mb_1")
    path = tmp_path / "data/local/logs/mb_1.log"
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert engine.logs("mb_1", 0, 1000).data == b""
    assert engine.logs("../../../../../etc/passwd", 0, 1000).data == b""


def test_use_is_measured_over_all_processes_of_a_member(engine: LocalEngine) -> None:
    burn = "import subprocess,sys,time\nx=bytearray(50<<20)\nprint('up',flush=True)\nwhile True: pass"
    engine.start([attempt("at_1", member("mb_1", ("/bin/sh", "-c", f'{sys.executable} -c "{burn}"; true')))])
    wait_for(engine, "mb_1", lambda _: b"up" in engine.logs("mb_1", 0, 9).data)
    wait_for(engine, "mb_1", lambda _: (engine.sample()[0].cpu_micros or 0) > 100_000)
    sample = engine.sample()[0]
    assert sample.memory_mib is not None
    assert sample.memory_mib >= 50
    assert sample.device_permille is None


def test_what_is_not_supported_is_declared(engine: LocalEngine) -> None:
    able = engine.capabilities()
    assert (able.can_exec, able.can_update, able.simulated) == (True, False, False)
    assert able.limits in ("cgroup-v2", "cgroup-v1", "rlimit")
    assert engine.update("at_1", 2, None).state is StartState.REFUSED


def test_a_folder_that_can_not_be_had_is_an_unavailable_cluster(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, not a folder")
    with pytest.raises(EngineUnavailable):
        make_local_engine(tmp_path).observe(None)
