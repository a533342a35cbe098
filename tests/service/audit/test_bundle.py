"""Bundles: a stranger verifies them with the file inside; what was changed afterwards is found and named."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from steelyard.api.app import create_app
from steelyard.api.context import Services
from steelyard.evidence.keys import fingerprint
from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import ForbiddenError, UnavailableError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import SECOND
from steelyard.services.audit import checkpoint
from steelyard.services.bundle_export import export_bundle, read_pieces, spooled_tar
from steelyard.services.bundle_folder import BundleFolder
from steelyard.services.flags import Act, act
from steelyard.services.keys import KEY_FILE, LogSigner, open_log_key, replace_lost_key, rotate_log_key
from steelyard.services.sessions import create_token
from steelyard.services.usage import report
from steelyard.services.users import create_user
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.house import ADMIN, House
from tests.support.sticky_engine import Sticky
from tests.support.stores import apply, doc

Files = BundleFolder


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.fixture
def signer(house: House) -> LogSigner:
    return open_log_key(house.store, house.folder)


def busy(house: House) -> None:
    house.submit("one", expect={"run": "2s"})
    house.submit("two", namespace="translate-dev", requests={"gpu": 1}, expect={"run": "600s"})
    house.submit("crash", expect={"run": "10ms", "exit": "3"})
    house.tick(30, step=200_000)


def unpack(files: Files, folder: Path) -> Path:
    packed = b"".join(read_pieces(spooled_tar(files)))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def verify(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-I", str(folder / "verify/verify.py"), str(folder), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={})
    return done.returncode, json.loads(done.stdout)


def notes(answer: dict[str, Any]) -> set[str]:
    return {note["code"] for note in answer["notes"]}


@pytest.mark.requirement("K4", "K7", "K10", "I3")
def test_a_stranger_verifies_a_bundle_of_a_house_at_work(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    busy(house)
    folder = unpack(export_bundle(house.store, ADMIN, signer), tmp_path / "bundle")
    status, answer = verify(folder, "--key", fingerprint(signer.public_key))
    assert (status, answer["problems"]) == (0, [])
    assert notes(answer) >= {"complete", "key-known", "self-attested", "simulated", "usage"}
    assert notes(verify(folder)[1]) >= {"key-not-known"}
    assert verify(folder, "--key", "ab" * 32)[0] == 1


def test_the_segments_of_a_bundle_sum_to_what_the_report_says(house: House, signer: LogSigner) -> None:
    busy(house)
    start = house.clock.at - 3 * SECOND
    files = export_bundle(house.store, ADMIN, signer, start, house.clock.at)
    said = json.loads(files["usage/report.json"])
    held: dict[str, int] = {}
    for line in files["usage/segments.jsonl"].splitlines():
        row = json.loads(line)
        if row["kind"] == "holding":
            held[row["class"]] = held.get(row["class"], 0) + row["quantity"] * (row["t1"] - row["t0"])
    answer = report(house.store, ADMIN, said["from"], said["to"], ("class",))
    assert held == {row["class"]: int(row["held"]) for row in answer["rows"]}
    assert said["closes"] is True
    assert all(check["ok"] for check in json.loads(files["usage/conservation.json"])["checks"])


@pytest.mark.parametrize(
    "path",
    ["audit/leaves.jsonl", "audit/end.ckpt", "usage/segments.jsonl", "inventory/after.json", "pending.json",
     "manifest.json", "verify/VERIFY.md"],
)  # fmt: skip
def test_a_flipped_bit_is_found_and_its_file_named(
    house: House, signer: LogSigner, tmp_path: Path, path: str
) -> None:
    folder = unpack(export_bundle(house.store, ADMIN, signer), tmp_path / "bundle")
    body = bytearray((folder / path).read_bytes())
    body[len(body) // 2] ^= 1
    (folder / path).write_bytes(body)
    status, answer = verify(folder)
    assert status == 1
    assert path in {problem["file"] for problem in answer["problems"]}


@pytest.mark.requirement("O14")
def test_simulated_devices_are_pending_and_said(house: House, signer: LogSigner) -> None:
    files = export_bundle(house.store, ADMIN, signer)
    items = json.loads(files["pending.json"])["items"]
    assert {item["reason"] for item in items} == {"simulated-device", "time-not-anchored"}
    assert {item["status"] for item in items} == {"pending-verification"}
    gpus = [item["subject"] for item in items if item["subject"].get("class") == "gpu"]
    assert gpus == [{"cluster": "sim", "class": "gpu", "devices": 8}]
    assert json.loads(files["manifest.json"])["predicate"]["simulated"] is True


def test_the_inventory_is_told_at_both_ends_with_its_facts(house: House, signer: LogSigner) -> None:
    files = export_bundle(house.store, ADMIN, signer)
    after = json.loads(files["inventory/after.json"])["devices"]
    assert {device["class"] for device in after} == {"gpu", "cpu", "memory"}
    assert json.loads(files["inventory/diff.json"]).keys() == {"added", "removed", "changed"}
    assert {fact["provenance"] for fact in json.loads(files["inventory/provenance.json"])["facts"]} == {
        "simulated"
    }


@pytest.mark.requirement("B9", "B7")
def test_a_bundle_tells_who_took_what_out_of_service_and_the_labels_of_the_time(
    house: House, signer: LogSigner
) -> None:
    act(house.store, ADMIN, Act.CORDON, "sim/n-0", "fan is loud")
    house.tick(2)
    files = export_bundle(house.store, ADMIN, signer)
    reasons = json.loads(files["inventory/reasons.json"])
    (flag,) = reasons["flags"]
    assert (flag["on"], flag["flag"], flag["set_by"], flag["reason"]) == (
        "node", "cordoned", ADMIN.id, "fan is loud",
    )  # fmt: skip
    assert {row["reason"] for row in reasons["unavailable"]} == {"cordoned"}
    history = json.loads(files["inventory/labels.json"])["history"]
    assert {row["by"] for row in history} == {"sim", "other"}


def test_a_bundle_across_a_rotation_verifies_with_the_old_key_alone(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    known = fingerprint(signer.public_key)
    checkpoint(house.store, signer, "first")
    busy(house)
    rotate_log_key(house.store, house.folder, signer)
    folder = unpack(export_bundle(house.store, ADMIN, signer), tmp_path / "bundle")
    status, answer = verify(folder, "--key", known)
    assert (status, answer["problems"]) == (0, [])
    assert notes(answer) >= {"rotated", "key-known"}


def test_a_bundle_across_a_lost_key_verifies_by_the_new_one_alone_and_states_the_break(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    lost = fingerprint(signer.public_key)
    checkpoint(house.store, signer, "first")
    busy(house)
    (house.folder / KEY_FILE).unlink()
    fresh = replace_lost_key(house.store, house.folder)
    checkpoint(house.store, fresh, "key-lost")
    folder = unpack(export_bundle(house.store, ADMIN, fresh), tmp_path / "bundle")
    status, answer = verify(folder, "--key", fingerprint(fresh.public_key))
    assert (status, answer["problems"]) == (0, [])
    assert notes(answer) >= {"key-lost", "key-known"}
    status, answer = verify(folder, "--key", lost)
    assert status == 1
    assert "key-known" not in notes(answer)


def test_what_is_written_meanwhile_does_not_disturb_an_export(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            house.submit("noise", requests={"cpu": "1"}, expect={"run": "1s"})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(3):
            folder = unpack(export_bundle(house.store, ADMIN, signer), tmp_path / f"bundle{number}")
            assert verify(folder)[1]["problems"] == []
    finally:
        done.set()
        thread.join()


def test_files_of_the_caller_are_listed_and_signed(house: House, signer: LogSigner, tmp_path: Path) -> None:
    files = export_bundle(house.store, ADMIN, signer, extra={"report.html": b"<html></html>"})
    folder = unpack(files, tmp_path / "bundle")
    assert verify(folder)[0] == 0
    (folder / "report.html").write_bytes(b"<html>!</html>")
    assert "report.html" in {problem["file"] for problem in verify(folder)[1]["problems"]}


def test_a_server_without_the_key_exports_nothing(house: House, signer: LogSigner) -> None:
    with pytest.raises(UnavailableError):
        export_bundle(house.store, ADMIN, LogSigner(signer.name, None))


def test_a_house_without_a_device_exports_what_it_has(store: Store, tmp_path: Path) -> None:
    signer = open_log_key(store, tmp_path)
    folder = unpack(export_bundle(store, ADMIN, signer), tmp_path / "bundle")
    assert verify(folder)[0] == 0


def test_the_api_hands_out_usage_checkpoint_proof_and_bundle(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    busy(house)
    services = Services.over(house.store, signer=signer)
    create_user(house.store, SYSTEM, "admin")
    apply(house.store, doc("Binding", "admin", user="admin", role="administrator"))
    client = TestClient(create_app(services))
    secret = create_token(house.store, SYSTEM, "test", user="admin").secret
    headers = {"Authorization": f"Bearer {secret}"}
    usage = client.get("/v1/usage?by=team,class&from=1", headers=headers).json()
    assert usage["closes"] is True
    assert usage["from"] == 1
    assert client.get("/v1/usage?by=price", headers=headers).json()["code"] == "dimension-unknown"
    shown = client.get("/v1/audit/checkpoint", headers=headers).json()
    assert shown["key"]["fingerprint"] == fingerprint(signer.public_key)
    assert client.get("/v1/audit/proof/0", headers=headers).text.startswith("c2sp.org/tlog-proof@v1")
    page = client.get("/v1/audit/leaves?stream=system&limit=2", headers=headers).json()
    assert [leaf["seq"] for leaf in page["items"]] == sorted(
        (leaf["seq"] for leaf in page["items"]), reverse=True
    )
    assert client.post("/v1/audit/checks", headers=headers).json()["ok"] is True
    packed = client.post("/v1/audit/bundle", headers=headers, json={"from": None, "to": None})
    assert packed.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path / "bundle", filter="data")
    assert verify(tmp_path / "bundle", "--key", shown["key"]["fingerprint"])[0] == 0
    services.attempts.close()


def test_bundles_are_for_auditors(house: House, signer: LogSigner) -> None:
    member = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    with pytest.raises(ForbiddenError):
        export_bundle(house.store, member, signer)


def shrunk(house: House) -> str:
    """An elastic gang of eight that goes on, and two of its members left for a higher priority."""
    gpus = {"cpu": "1", "memory": "1Gi", "gpu": 1}
    gang = house.submit("gang", count=8, min=3, requests=gpus, expect={"run": "600s"})
    house.run_until(lambda: house.phase(gang) == "running")
    high = house.submit("high", priorityClass="high", count=2, requests=gpus, expect={"run": "600s"})
    house.run_until(lambda: house.phase(high) == "running")
    return gang


@pytest.mark.requirement("G7")
def test_members_that_left_a_gang_that_goes_on_have_their_receipts_in_the_bundle(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    gang = shrunk(house)
    files = export_bundle(house.store, ADMIN, signer, 0)
    rows = [json.loads(line) for line in files["usage/receipts.jsonl"].splitlines()]
    assert [(row["workload"], row["index"], row["state"]) for row in rows] == [
        (gang, 6, "confirmed"), (gang, 7, "confirmed")
    ]  # fmt: skip
    (attempt,) = house.show(gang)["attempts"]
    assert {row["attempt"] for row in rows} == {attempt["id"]}
    assert {row["member"] for row in rows} == {one["id"] for one in attempt["members"] if one["index"] > 5}
    folder = unpack(files, tmp_path / "bundle")
    status, answer = verify(folder)
    assert (status, answer["problems"]) == (0, [])
    assert [note["params"] for note in answer["notes"] if note["code"] == "receipts"] == [{"count": 2}]


def test_a_receipt_that_a_leaf_has_and_the_bundle_has_not_is_found(
    house: House, signer: LogSigner, tmp_path: Path
) -> None:
    shrunk(house)
    folder = unpack(export_bundle(house.store, ADMIN, signer, 0), tmp_path / "bundle")
    path = folder / "usage/receipts.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    status, answer = verify(folder)
    assert status == 1
    problems = {(each["file"], each["code"]) for each in answer["problems"]}
    assert ("usage/receipts.jsonl", "receipt") in problems


def test_what_was_kept_back_and_proven_free_later_agrees_with_the_log(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path, wrap=Sticky)
    try:
        engine = house.engines["sim"]
        assert isinstance(engine, Sticky)
        engine.stuck = True
        kept = house.submit("kept", expect={"run": "10ms"})
        house.run_until(lambda: house.phase(kept) == "finished", step=SECOND)
        engine.stuck = False
        house.tick(120, step=SECOND)
        files = export_bundle(house.store, ADMIN, open_log_key(house.store, house.folder), 0)
        (row,) = map(json.loads, files["usage/receipts.jsonl"].splitlines())
        assert (row["workload"], row["state"]) == (kept, "quarantined")
        leaves = [json.loads(line) for line in files["audit/leaves.jsonl"].splitlines()]
        assert "release.proven" in {leaf["action"] for leaf in leaves}
        status, answer = verify(unpack(files, tmp_path / "bundle"))
        assert (status, answer["problems"]) == (0, [])
    finally:
        house.close()
