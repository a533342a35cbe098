"""Bad input to a real server over HTTP: a clear coded answer in both languages, nothing lost or leaked."""

from __future__ import annotations

import base64
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.books import check_books
from tests.support.containers import code_of_an_absent_image
from tests.support.server import Server, document, running

LANGUAGES = ("zh", "en")
#: What must never stand in an answer or in what the server prints.
LEAKS = (
    "Traceback",
    "sqlalchemy",
    "sqlite3.",
    "site-packages",
    'File "',
    ".py",
    "SELECT ",
    "INSERT ",
    "UPDATE ",
)
MEGABYTES = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all of these requests: it must answer after each."""
    with running(tmp_path_factory.mktemp("bad") / "data") as made:
        yield made
        assert_clean(made, made.said().split("\n", 3)[-1])


def assert_clean(server: Server, text: str) -> None:
    """No stack trace, no path of ours, no secret."""
    secrets = [server.client.headers["Authorization"].removeprefix("Bearer "), str(server.password)]
    found = [leak for leak in (*LEAKS, str(server.folder), *secrets) if leak in text]
    assert not found, (found, text[-3000:])


def send(server: Server, method: str, path: str, body: bytes | None, **headers: str) -> list[httpx.Response]:
    """The same request in both languages."""
    sent = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return [
        server.client.request(method, path, content=body, headers={**sent, "Accept-Language": lang})
        for lang in LANGUAGES
    ]


def refused(
    server: Server, answers: list[httpx.Response], *codes: str, status: int | None = None
) -> dict[str, Any]:
    """Both are problems of one of these codes, each in its language; the server is there. The last one."""
    problems = []
    for answer in answers:
        assert answer.headers["content-type"] == "application/problem+json", answer.text[:500]
        assert 400 <= answer.status_code < 500, answer.text
        problem = answer.json()
        assert problem["code"] in codes, problem
        assert status in (None, answer.status_code), answer.text
        assert problem["title"]
        assert problem["detail"]
        assert len(answer.content) < 8 * 1024
        assert_clean(server, answer.text)
        problems.append(problem)
    assert problems[0]["detail"] != problems[1]["detail"]
    assert server.client.get("/readyz").status_code == 200
    return dict(problems[1])


def workload(change: dict[str, Any]) -> bytes:
    """A workload document with a part of it replaced, NaN and Infinity as Python writes them."""
    made = document("bad", ["/bin/true"])
    for path, value in change.items():
        inner: Any = made
        *steps, last = path.split(".")
        for step in steps:
            inner = inner[int(step)] if step.isdigit() else inner[step]
        inner[last] = value
    return json.dumps(made).encode()


ROLE = "spec.roles.0"
QUANTITY_CODES = ("quantity-invalid", "quantity-too-large", "quantity-too-fine", "field-invalid")
QUANTITIES = [
    -1,
    "-1",
    "-500m",
    10**30,
    "9" * 400,
    "1e400",
    True,
    [],
    {},
    "½",
    "１",
    "0x10",
    "1_000",
    0.0001,
    "",
    " ",
]


@pytest.mark.parametrize("amount", QUANTITIES, ids=repr)
def test_a_quantity_that_is_none_is_refused_with_its_path(server: Server, amount: Any) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({f"{ROLE}.requests.cpu": amount}))
    problem = refused(server, answers, *QUANTITY_CODES)
    assert problem["params"].get("path", "").startswith("spec.roles[0].requests")


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_know_are_refused(server: Server, literal: str) -> None:
    body = workload({f"{ROLE}.requests.cpu": "X"}).replace(b'"X"', literal.encode())
    refused(server, send(server, "POST", "/v1/workloads", body), "body-number-invalid", status=400)


def test_a_huge_but_sound_quantity_is_refused_by_what_there_is(server: Server) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({f"{ROLE}.requests.cpu": 10**6}))
    problem = refused(server, answers, "refused", status=422)
    assert {reason["code"] for reason in problem["reasons"]} <= {"exceeds-capacity", "exceeds-max-quota"}


@pytest.mark.parametrize("path", ["/v1/workloads", "/v1/objects:apply", "/v1/sessions", "/v1/users"])
def test_a_name_of_ten_megabytes_is_refused_by_its_size(server: Server, path: str) -> None:
    name = "n" * (10 * MEGABYTES + 1)
    answers = send(server, "POST", path, json.dumps({"name": name, "user": name}).encode())
    refused(server, answers, "body-too-large", status=413)


@pytest.mark.parametrize("length", [64, 1000, 900_000])
def test_a_name_that_is_too_long_is_refused_and_not_repeated(server: Server, length: int) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({"metadata.name": "n" * length}))
    problem = refused(server, answers, "name-invalid")
    assert len(problem["detail"]) < 400


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "../../etc", "/etc/passwd", "A", "é", "a\x00b", "a\nb", "", "\x1b[31m"]
)
def test_a_name_that_could_be_a_path_or_an_escape_is_refused(server: Server, name: str) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({"metadata.name": name}))
    problem = refused(server, answers, "name-invalid")
    assert problem["detail"].isprintable()


@pytest.mark.parametrize("path", ["..", "../x", "a/../../b", "/etc/passwd", "/", "."])
def test_an_artifact_outside_the_work_folder_is_refused(server: Server, path: str) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({"spec.artifacts": [path]}))
    refused(server, answers, "path-outside")


@pytest.mark.parametrize("path", ["..", "../x", "/tmp/../etc", "a/../../b"])
def test_a_working_directory_with_a_way_up_is_refused(server: Server, path: str) -> None:
    answers = send(server, "POST", "/v1/workloads", workload({f"{ROLE}.workingDirectory": path}))
    refused(server, answers, "path-outside")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"extra": 1}, "extra"),
        ({"metadata.Name": "x"}, "metadata.Name"),
        ({"spec.role": []}, "spec.role"),
        ({f"{ROLE}.requests.cpus": 1}, "spec.roles[0].requests.cpus"),
        ({f"{ROLE}.comand": []}, "spec.roles[0].comand"),
    ],
)
def test_an_unknown_key_is_refused_with_its_path(server: Server, change: dict[str, Any], path: str) -> None:
    problem = refused(server, send(server, "POST", "/v1/workloads", workload(change)), "field-unknown")
    assert problem["params"]["path"] == path


BODIES = {
    "empty": (b"", ("request-invalid", "body-not-json", "field-invalid")),
    "not json": (b"{", ("body-not-json",)),
    "not utf-8": (b'{"kind": "\xff\xfe"}', ("body-not-json",)),
    "lone surrogate": (b'{"kind": "\\ud800"}', ("body-text-invalid",)),
    "deep list": (b"[" * 100_000 + b"]" * 100_000, ("body-too-deep",)),
    "deep mapping": (b'{"a":' * 5000 + b"1" + b"}" * 5000, ("body-too-deep",)),
    "a key twice": (b'{"kind": "Workload", "kind": "Workload"}', ("body-key-twice",)),
    "a long number": (
        b'{"kind": ' + b"9" * 100_000 + b"}",
        ("body-not-json", "body-number-invalid", "field-invalid"),
    ),
    "null": (b"null", ("request-invalid", "field-invalid")),
    "a list": (b"[]", ("request-invalid", "field-invalid")),
    "a text": (b'"Workload"', ("request-invalid", "field-invalid")),
    "nul bytes": (b"\x00" * 1000, ("body-not-json",)),
    "yaml": (b"kind: Workload", ("body-not-json",)),
}


@pytest.mark.parametrize("kind", sorted(BODIES))
@pytest.mark.parametrize("path", ["/v1/workloads", "/v1/objects:apply", "/v1/sessions"])
def test_a_body_that_is_none_is_refused(server: Server, path: str, kind: str) -> None:
    body, codes = BODIES[kind]
    # before anybody has signed in only small bodies are read at all
    more = ("body-too-large",) if path == "/v1/sessions" else ()
    refused(server, send(server, "POST", path, body), *codes, *more, "request-invalid")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "image/png", "nonsense", ""]
)
def test_a_body_of_another_content_type_is_refused_or_read_as_json(server: Server, kind: str) -> None:
    answers = send(server, "POST", "/v1/workloads", b"a=1&b=2", Content_Type=kind)
    refused(server, answers, "body-not-json", "request-invalid", "field-invalid", "body-type-unknown")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workloads/..%2f..%2fetc",
        "/v1/workloads/%00",
        "/v1/workloads/wl_",
        "/v1/workloads/at_0000000000001",
        "/v1/workloads/wl_zzzzzzzzzzzzzzzzzzzzzzzzz",
        "/v1/workloads/" + "w" * 5000,
        "/v1/devices/dv_%1b[31m",
        "/v1/objects/Queue/%2e%2e%2f",
        "/v1/objects/nonsense/main",
        "/nonsense",
        "/v1/../../etc/passwd",
        "/v1/cycles/x",
        "/v1/workloads/wl_0000000000000/logs?member=..%2f..%2f..%2fetc%2fpasswd",
    ],
)
def test_an_id_that_is_none_is_not_found(server: Server, path: str) -> None:
    refused(
        server, send(server, "GET", path, None), "not-found", "id-invalid", "route-unknown", "kind-unknown"
    )


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=-1",
        "limit=1e9",
        "limit=NaN",
        "cursor=..",
        "cursor=%00",
        "cursor=" + "c" * 3000,
        "phase=nonsense",
        "kind=%1b",
        "order=drop%20table",
        "q=" + "q" * 5000,
        "project=" + "p" * 5000,
    ],
)
def test_a_query_that_makes_no_sense_is_refused(server: Server, query: str) -> None:
    answers = send(server, "GET", f"/v1/workloads?{query}", None)
    refused(server, answers, "request-invalid", "cursor-invalid", "limit-invalid", "field-invalid")


def test_headers_of_any_size_or_content_do_no_harm(server: Server) -> None:
    for headers in (
        {"X-Long": "x" * 200_000},
        {"Accept-Language": "zh;q=" * 5000},
        {"Idempotency-Key": "k" * 5000},
    ):
        try:
            answer = server.client.post("/v1/workloads", content=b"{}", headers=headers)
            assert 400 <= answer.status_code < 500
        except httpx.RemoteProtocolError:
            pass  # the connection is closed in mid-header
        assert server.client.get("/readyz").status_code == 200


def test_what_is_no_http_does_no_harm(server: Server) -> None:
    for junk in (
        b"\x00\xff" * 4096,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/workloads HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
            raw.sendall(junk)
            raw.shutdown(socket.SHUT_WR)
            answer = raw.recv(65536)
        assert not answer or answer.split(b" ")[1] in (b"400", b"404"), answer
        assert server.client.get("/readyz").status_code == 200


def test_a_wrong_credential_is_not_repeated(server: Server) -> None:
    for value in ("Bearer " + "t" * 5000, "Bearer ../../x", "Basic YWRtaW46", "Bearer", "\x7f"):
        answers = send(server, "GET", "/v1/workloads", None, Authorization=value)
        refused(server, answers, "credential-missing", "credential-invalid", "unauthenticated", status=401)


# --- logs ------------------------------------------------------------------------------------------


def run_to_its_end(server: Server, name: str, script: str, **fields: Any) -> dict[str, Any]:
    """A shell script's workload when it has ended."""
    found = server.submit(name, ["/bin/sh", "-c", script], **fields)
    view = server.wait_for(lambda: _ended(server.get(f"/v1/workloads/{found}")), 30)
    return dict(view)


def _ended(view: dict[str, Any]) -> dict[str, Any] | None:
    return view if view["phase"] == "finished" else None


def log_of(server: Server, workload_id: str, limit: int = 65536) -> bytes:
    """The whole log, chunk by chunk."""
    data, offset = b"", 0
    while True:
        chunk = server.get(f"/v1/workloads/{workload_id}/logs", offset=offset, limit=limit)
        data += base64.b64decode(chunk["data_base64"])
        if chunk["end"]:
            return data
        offset = chunk["next_offset"]


@pytest.mark.requirement("D10")
def test_a_log_of_escapes_and_binary_comes_back_byte_for_byte(server: Server) -> None:
    made = "bytes.fromhex('1b5b324a1b5d303b7469746c65070d08') + bytes(range(256)) * 100"
    code = f"import random, sys; sys.stdout.buffer.write({made} + random.Random(3).randbytes(50_000))"
    written = b"\x1b[2J\x1b]0;title\x07\r\x08" + bytes(range(256)) * 100 + random.Random(3).randbytes(50_000)
    view = run_to_its_end(server, "escapes", f'python3 -c "{code}"')
    assert view["outcome"] == "succeeded"
    assert log_of(server, view["id"]) == written
    assert log_of(server, view["id"], limit=7777) == written


def test_a_log_replaced_by_a_link_shows_nothing_of_what_it_points_to(server: Server) -> None:
    script = 'ln -sf /etc/passwd "$HOME/../../../local/logs/$STEELYARD_MEMBER.log"; echo after'
    view = run_to_its_end(server, "link", script)
    assert b"root:" not in log_of(server, view["id"])


def test_links_left_in_the_work_folder_lead_nobody_out_of_it(server: Server, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    script = f'ln -s {outside} "$TMPDIR/link"; ln -s {outside}/kept "$TMPDIR/file"; ln -s / "$HOME/root"'
    view = run_to_its_end(server, "links", script)
    assert view["attempts"][0]["receipt"]["state"] == "confirmed"
    assert (outside / "kept").read_text() == "kept"


def test_a_relative_working_directory_lies_in_the_work_folder(server: Server) -> None:
    view = run_to_its_end(server, "folder", "pwd", role={"workingDirectory": "etc"})
    assert view["outcome"] == "succeeded", view["verdict"]
    path = log_of(server, view["id"]).decode().strip()
    assert path.startswith(f"{server.folder}/work/")


#: What an image that is nowhere comes to: the machine may have nothing that could run one.
IMAGE_CODE = code_of_an_absent_image()


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("no-folder", {"role": {"workingDirectory": "/nonexistent"}}, "working-directory-missing"),
        ("no-program", {"role": {"requires": ["program:nonsense"]}}, "program-missing"),
        ("image", {"role": {"image": "registry.example/x"}}, IMAGE_CODE),
    ],
)
def test_what_can_not_start_says_at_which_stage(
    server: Server, name: str, fields: dict[str, Any], code: str
) -> None:
    view = run_to_its_end(server, name, "true", maxAttempts=1, **fields)
    assert (view["outcome"], view["verdict"]["code"]) == ("failed", code)


def test_after_all_of_it_nothing_is_held_and_the_books_hold(server: Server) -> None:
    devices = [d for node in server.get("/v1/inventory")["items"] for d in node["devices"]]
    assert {d["held"] for d in devices} == {0}
    check_books(server)
