"""What a container is given, what podman's answers mean, and what a role may ask for, without any podman."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local import container, podman
from steelyard.engines.local.container import Box, create_words
from steelyard.engines.local.isolation import DEVICES, HOST, NONE, PRIVATE, mode_of, not_enforced, of_member
from steelyard.engines.local.podman import Answer, Image, Refusal
from steelyard.model.errors import InvalidError
from steelyard.model.workloads import PullPolicy, Role, Runtime
from steelyard.services.workload_document import parse_workload

BOX = Box(
    name="steelyard-mb_1", image="abc", labels=(("org.steelyard.attempt", "at_1"),), env_file="/n/env",
    pid_file="/n/pid", user=1234, groups=(44,), network=PRIVATE,
    mounts=(("/w", "/w", False), ("/s", "/s", True)), files=("/dev/davinci0",),
    limits=(("nofile", 10, 20),), shared_memory=64, folder="/w",
    command=("sh", "-c", "; rm -rf /"),
)  # fmt: skip
IMAGE = Image("abc", ("sha256:1",), {}, {})
DIGEST = "sha256:" + "0" * 64


def test_a_container_has_no_right_that_its_program_was_not_given() -> None:
    words = create_words(BOX)
    wanted = ("--cap-drop=all", "--security-opt=no-new-privileges", "--read-only", "--network=none",
              "--user=1234:1234", "--group-add=44", "--device=/dev/davinci0", "--pull=never",
              "--http-proxy=false", "--ulimit=nofile=10:20", "--env-file=/n/env",
              "--mount=type=bind,src=/w,dst=/w", "--mount=type=bind,src=/s,dst=/s,ro=true")  # fmt: skip
    assert set(wanted) <= set(words)
    assert words[-4:] == ["abc", "sh", "-c", "; rm -rf /"]
    assert not any(word.startswith(("--env=", "--privileged")) for word in words)
    assert "--network=host" in create_words(BOX._replace(network=HOST))


def test_a_variable_that_a_file_of_lines_cannot_hold_is_named() -> None:
    assert container.env_lines({"A": "1 # x", "B": ""}) == "A=1 # x\nB=\n"
    with pytest.raises(ValueError, match="B"):
        container.env_lines({"A": "1", "B": "x\nLD_PRELOAD=/tmp/x"})


SOURCE = "initializing source docker://r:5000/denied/x:1"


@pytest.mark.parametrize(
    ("said", "code"),
    [  # as podman 4.3 says it
        ("reading manifest 1 in r:5000/denied/x: unauthorized", "image-pull-denied"),
        ("reading manifest 1 in r:5000/denied/x: denied", "image-pull-denied"),
        ("unable to retrieve auth token: invalid username/password: unauthorized: no", "image-pull-denied"),
        ("reading manifest 1 in r:5000/denied/x: manifest unknown", "image-not-found"),
        ("reading manifest 1 in r:5000/denied/x: received unexpected HTTP status: 500 Internal Server Error",
         "image-pull-failed"),
        ('pinging container registry r:5000: Get "https://r:5000/v2/": dial tcp: lookup r: no such host',
         "image-pull-failed"),
    ],
)  # fmt: skip
def test_what_a_registry_answers_is_told_apart(said: str, code: str) -> None:
    found = podman.refusal_of_pull(Answer(125, "", f"Error: {SOURCE}: {said}\n"), "r:5000/denied/x:1")
    assert (found.code, found.text) == (code, f"{SOURCE}: {said}")


@pytest.mark.parametrize("name", ["x", "team/x:1", "oci-archive:x.tar", "dir:x/y.z"])
def test_only_a_registry_is_fetched_from(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    said: list[list[str]] = []
    monkeypatch.setattr(podman, "call", lambda words, *_: said.append(words) or Answer(0, "", ""))
    podman.pull((), name, lambda: False)
    assert all(words[-1].startswith("docker://") for words in said)
    said.clear()
    assert podman.pull((), "r.example/x:1", lambda: False) is None
    assert podman.pull((), f"r.example:5000/x:1@{DIGEST}", lambda: False) is None
    assert [words[-1] for words in said] == ["docker://r.example/x:1", f"docker://r.example:5000/x@{DIGEST}"]


def test_of_a_long_complaint_the_end_is_kept() -> None:
    text = Answer(125, "", f"Error: {'x' * 300}: unauthorized\n").why
    assert (len(text), text[0], text[-14:]) == (200, "…", ": unauthorized")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('Error: runc: exec: "/no": stat /no: no such file or directory: OCI runtime attempted to invoke a '
         "command that was not found", "command-not-found"),
        ('Error: exec: "sh": executable file not found in $PATH: OCI runtime error', "command-not-found"),
        ('Error: runc: exec: "/etc": permission denied: OCI permission denied', "not-executable"),
        ('Error: workdir "/no" does not exist on container abc', "working-directory-missing"),
        ("Error: error setting rlimit type 6: operation not permitted", "isolation-failed"),
    ],
)  # fmt: skip
def test_why_a_container_was_not_made_is_told_apart(said: str, code: str) -> None:
    assert container.refusal_of_making(Answer(125, "", said)).code == code


@pytest.mark.parametrize(
    ("labels", "env", "given", "fits"),
    [
        ({}, {}, [], True),
        ({"org.steelyard.class": "npu"}, {}, ["npu"], True),
        ({"org.steelyard.class": "npu"}, {}, ["gpu"], False),
        ({"org.steelyard.class": "npu"}, {}, [], False),
        ({"org.steelyard.class": "cpu"}, {}, ["gpu"], True),
        ({}, {"CUDA_VERSION": "12"}, [], True),
        ({}, {"CUDA_VERSION": "12"}, ["npu"], False),
        ({}, {"CUDA_VERSION": "12", "ASCEND_HOME_PATH": "/a"}, ["npu"], True),
    ],
)
def test_an_image_fits_the_devices_or_says_why_not(
    labels: dict[str, str], env: dict[str, str], given: list[str], fits: bool
) -> None:
    member = {"devices": [{"class": one} for one in given]}
    found = container.mismatch(IMAGE._replace(labels=labels, env=env), member)
    assert (found is None) is fits
    assert found is None or found.code == "image-class-mismatch"


@pytest.mark.parametrize(
    ("here", "name", "code"),
    [
        ([IMAGE], "i:1", None),
        ([None], "i:1", "image-not-found"),
        ([None, IMAGE], f"i:1@{DIGEST}", "image-digest-mismatch"),
        ([None, IMAGE._replace(digests=(DIGEST,))], f"i:1@{DIGEST}", None),
        ([None, None], f"i:1@{DIGEST}", "image-not-found"),
        ([Refusal("image-runtime-missing", "x")], "i:1", "image-runtime-missing"),
    ],
)
def test_an_image_is_the_declared_one_or_it_is_said_how_not(
    monkeypatch: pytest.MonkeyPatch, here: list[Any], name: str, code: str | None
) -> None:
    answers = iter(here)
    monkeypatch.setattr(podman, "look", lambda _flags, _name: next(answers))
    found = container.settle_image((), {"image": name}, lambda: False)
    assert (found.code if isinstance(found, Refusal) else None) == code


def test_an_image_is_fetched_only_where_the_role_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(podman, "look", lambda _flags, name: IMAGE if name in fetched else None)
    monkeypatch.setattr(podman, "pull", lambda _flags, name, _stopped: fetched.append(name))
    assert isinstance(container.settle_image((), {"image": "i:1", "pull": "never"}, lambda: False), Refusal)
    assert container.settle_image((), {"image": "i:1", "pull": "missing"}, lambda: False) == IMAGE
    assert fetched == ["i:1"]


def test_a_digest_that_its_registry_does_not_know_either_is_another_than_that_of_the_name_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podman, "look", lambda _flags, name: None if "@" in name else IMAGE)
    monkeypatch.setattr(podman, "pull", lambda *_: Refusal("image-not-found", "manifest unknown"))
    found = container.settle_image((), {"image": f"i:1@{DIGEST}", "pull": "missing"}, lambda: False)
    assert isinstance(found, Refusal)
    assert found.code == "image-digest-mismatch"


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"Id": 1, "Config": 3}]', "null"])
def test_an_answer_that_is_none_is_not_taken_for_an_image(text: str) -> None:
    assert podman.read_image(text) is None


def test_an_image_is_known_by_its_digests_and_its_id() -> None:
    said = {"Id": "ab", "Digest": "sha256:1", "RepoDigests": ["r/i@sha256:2"], "Labels": None,
            "Config": {"Env": ["A=b=c"]}}  # fmt: skip
    found = podman.read_image(json.dumps([said]))
    assert found == Image("ab", ("sha256:1", "sha256:2", "sha256:ab"), {}, {"A": "b=c"})


def test_a_call_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "podman"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(podman, "find", lambda: os.fspath(program))
    assert podman.call(["podman"], seconds=0.01).code is None
    assert podman.call(["podman"], stopped=lambda: True).code is None


def test_a_podman_that_does_not_answer_says_nothing_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman, "call", lambda *_: Answer(None, "", ""))
    with pytest.raises(BlockingIOError, match="does not answer"):
        container.bring_up((), BOX, ())


def test_a_member_with_an_image_is_in_a_container_whatever_the_rest_runs_in() -> None:
    attempt = {"isolation": {"mode": NONE, "network": HOST, "shared": []}}
    member = {"image": "i:1", "port": None, "devices": [{"class": "gpu"}]}
    assert mode_of(attempt, member) == "container"
    assert not_enforced(of_member(attempt, member)) == ("network",)
    assert DEVICES in of_member(attempt, member)
    assert of_member(attempt, {**member, "image": None}) == ()


def role(**fields: Any) -> Role:
    spec = {"kind": "batch", "roles": [{"name": "r", "command": ["x"], "requests": {"cpu": 1}, **fields}]}
    document = {"kind": "Workload", "metadata": {"name": "w", "namespace": "n"}, "spec": spec}
    return parse_workload(document, lambda *_: None).roles[0]


def test_the_runtime_follows_from_what_is_named() -> None:
    plain = role()
    assert (plain.runtime, plain.pull) == (Runtime.HOST, PullPolicy.NEVER)
    for image in ("a" * 64, "localhost/x-y__z:1.2-rc", "R.example:5000/x.y/z", f"r.example/x:1@{DIGEST}"):
        assert role(image=image).image == image
    assert role(image="i:1") == replace(plain, runtime=Runtime.CONTAINER, image="i:1")
    assert role(venv="/v") == replace(plain, runtime=Runtime.VENV, venv="/v")
    assert role(image=f"i@{DIGEST}", runtime="container", pull="missing").pull is PullPolicy.MISSING


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"runtime": "pod"}, "runtime"),
        ({"runtime": "container"}, "image"),
        ({"runtime": "venv"}, "venv"),
        ({"runtime": "host", "image": "i:1"}, "image"),
        ({"image": "i:1", "venv": "/v"}, "venv"),
        ({"image": "--privileged"}, "image"),
        ({"image": "i 1"}, "image"),
        ({"image": "dir:/etc"}, "image"),
        ({"image": "docker-archive:/root/x.tar"}, "image"),
        ({"image": "docker://r.example/x"}, "image"),
        ({"image": "r.example/../x"}, "image"),
        ({"image": "i@sha256:12"}, "image"),
        ({"venv": "v"}, "venv"),
        ({"venv": "/v/../x"}, "venv"),
        ({"venv": "/v:/x"}, "venv"),
        ({"pull": "missing"}, "image"),
        ({"image": "i:1", "pull": "always"}, "pull"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        role(**fields)
    assert caught.value.params["path"] == f"spec.roles[0].{path}"
