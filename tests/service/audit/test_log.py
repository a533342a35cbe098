"""The log for auditors: checkpoints that hold, proofs that verify, streams that are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.evidence.checkpoint import VerifierKey, parse_checkpoint, parse_note, verify_note
from steelyard.evidence.leaf import ActorRef, LeafDraft, pinned_heads_draft
from steelyard.evidence.merkle import verify_consistency, verify_inclusion
from steelyard.evidence.proof import parse_tlog_proof
from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import ForbiddenError, InvalidError, NotFoundError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import audit
from steelyard.services.keys import LogSigner, open_log_key
from steelyard.store.leaves import tile_reader
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.support.stores import apply, doc

MEMBER = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "vision", 1),))


@pytest.fixture
def signer(store: Store, tmp_path: Path) -> LogSigner:
    return open_log_key(store, tmp_path)


def test_a_checkpoint_is_of_the_size_and_root_that_are_committed(store: Store, signer: LogSigner) -> None:
    apply(store, doc("Team", "red"), doc("Team", "blue"))
    note = audit.checkpoint(store, signer, "test")
    assert note is not None
    head = verify_note(note, [VerifierKey(signer.name, signer.public_key)]).checkpoint
    assert head == (store.install_id, store.writer.state.size, store.writer.state.frontier.root())


def test_a_size_that_is_signed_is_not_signed_again(store: Store, signer: LogSigner) -> None:
    assert audit.checkpoint(store, signer, "a") == audit.checkpoint(store, signer, "b")


def test_the_first_checkpoint_is_made_when_it_is_asked_for(store: Store, signer: LogSigner) -> None:
    shown = audit.newest(store, SYSTEM, signer)
    assert shown["size"] == 1
    assert shown["key"]["fingerprint"]
    assert parse_checkpoint(parse_note(shown["note"]).body).root.hex() == shown["root"]
    assert shown["short_code"].startswith("1-")


def test_a_proof_holds_also_for_a_leaf_that_no_checkpoint_covered(store: Store, signer: LogSigner) -> None:
    audit.checkpoint(store, signer, "test")
    apply(store, doc("Team", "red"))
    seq = store.writer.state.size - 1
    proof = parse_tlog_proof(audit.proof(store, SYSTEM, seq, signer))
    head = parse_checkpoint(parse_note(proof.checkpoint_note).body)
    with store.read() as view:
        leaf = tile_reader(view).hash_at(0, seq)
    assert verify_inclusion(leaf, seq, head.size, proof.proof, head.root)


def test_a_later_log_is_shown_to_begin_with_the_earlier(store: Store, signer: LogSigner) -> None:
    first, start = store.writer.state.frontier.root(), store.writer.state.size
    apply(store, doc("Team", "red"), doc("Team", "blue"))
    state = store.writer.state
    shown = audit.consistency(store, SYSTEM, start, None)
    steps = [bytes.fromhex(step) for step in shown["proof"]]
    assert verify_consistency(start, state.size, steps, first, state.frontier.root())
    with pytest.raises(InvalidError):
        audit.consistency(store, SYSTEM, 0, state.size + 1)


@pytest.mark.parametrize("stream", ["object/team/red", "object/log/log", "actor/system", "system"])
def test_a_stream_is_walked_from_its_head_to_its_first_leaf(
    store: Store, signer: LogSigner, stream: str
) -> None:
    for number in range(3):
        apply(store, doc("Team", "red", displayName=f"Red {number}"))
        store.writer.write(Unit(ActorRef("x")))
    store.writer.write(_pinned("system"))
    seen, after = [], None
    while True:
        page = audit.leaves(store, SYSTEM, stream, after, 2)
        seen += page["items"]
        if page["next"] is None:
            break
        after = page["next"]
    entries = [entry for leaf in seen for entry in leaf["streams"] if entry["name"] == stream]
    assert [entry["n"] for entry in entries] == list(range(page["head"]["n"]))[::-1]
    assert len(seen) >= 2
    for later, earlier in zip(entries, seen[1:], strict=False):
        assert later["prev"] == earlier["hash"]


def _pinned(*names: str) -> Unit:
    unit = Unit(ActorRef("system", "system"))
    unit.leaf(pinned_heads_draft(names))
    return unit


def test_pinned_heads_are_those_right_before_the_leaf_also_within_one_group(store: Store) -> None:
    units = []
    for number in range(4):
        unit = Unit(ActorRef("system", "system"))
        unit.leaf(LeafDraft("test.done", "thing", f"t{number}"))
        units += [unit, _pinned("system", "actor/nobody")]
    for future in [store.writer.submit(unit) for unit in units]:
        future.result(30)
    leaves = audit.leaves(store, SYSTEM, None, None, 500)["items"]
    pinned = [leaf for leaf in leaves if leaf["action"] == "log.stream-heads"]
    assert len(pinned) == 4
    for leaf in pinned:
        (head,) = leaf["detail"]["heads"]
        (own,) = [entry for entry in leaf["streams"] if entry["name"] == "system"]
        assert (head["n"], head["seq"], head["hash"]) == (own["n"], own["prev_seq"], own["prev"])


def test_what_is_not_there_is_said(store: Store, signer: LogSigner) -> None:
    for stream in ("object/workload/wl_x", "object/team/none", "project/none", "nonsense"):
        with pytest.raises(NotFoundError):
            audit.leaves(store, SYSTEM, stream)
    with pytest.raises(NotFoundError):
        audit.proof(store, SYSTEM, 99, signer)


def test_only_auditors_and_administrators_look_at_the_log(store: Store, signer: LogSigner) -> None:
    for act in (
        lambda: audit.newest(store, MEMBER, signer),
        lambda: audit.proof(store, MEMBER, 0, signer),
        lambda: audit.consistency(store, MEMBER, 0, None),
        lambda: audit.leaves(store, MEMBER, "project/vision"),
    ):
        with pytest.raises(ForbiddenError):
            act()
