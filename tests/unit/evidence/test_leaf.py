"""Leaves: canonical bytes for every draft, and how they are sequenced."""

from __future__ import annotations

import json
import string

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from steelyard.evidence.leaf import (
    ActorRef,
    Adapter,
    Head,
    LeafDraft,
    LogState,
    Origin,
    Transition,
    advance,
    sequence,
    stream_heads_draft,
    verify_bodies,
)
from steelyard.evidence.merkle import leaf_hash, root_of
from steelyard.model.errors import SteelyardError

ACTOR = ActorRef("us_1")
NEW: dict[str, Head] = {}
"""Heads of a log without any stream."""
words = st.text(string.ascii_letters + '_-/"\\\n\x7f', min_size=1, max_size=8)
maybe = st.none() | words
counts = st.none() | st.integers(0, 2**53 - 1)
drafts = st.builds(
    LeafDraft,
    words,
    words,
    words,
    counts,
    counts,
    outcome=st.sampled_from(["allowed", "refused", "error"]),
    reason_code=maybe,
    rule_version=maybe | st.integers(0, 99),
    before_digest=maybe,
    transitions=st.lists(
        st.builds(Transition, from_=maybe, to=words, at=st.integers(0, 2**52), sub=maybe), max_size=3
    ),
    project=maybe,
    cluster=maybe,
    origin=st.none() | st.builds(Origin, st.none(), st.none(), maybe),
    trace_id=maybe,
    adapter=st.none() | st.builds(Adapter, words, maybe),
    extra=st.none() | st.dictionaries(words, st.text(st.sampled_from("a中😀")), max_size=3),
)
FIELDS = {
    *("v", "seq", "ts", "actor", "origin", "action", "object", "outcome", "reason_code", "rule_version"),
    *("before_digest", "after_digest", "transitions", "streams", "trace_id", "adapter", "detail"),
}


@given(st.lists(drafts, min_size=1, max_size=6))
def test_every_leaf_has_the_bytes_that_rfc8785_gives_it(some: list[LeafDraft]) -> None:
    made = sequence(LogState(), 7, [(ACTOR, draft) for draft in some], NEW.get)
    for row in made.rows:
        value = json.loads(row.body)
        assert rfc8785.dumps(value) == row.body
        assert set(value) == FIELDS
        assert row.hash == leaf_hash(row.body)


def test_a_leaf_says_what_the_draft_said() -> None:
    draft = LeafDraft(
        "workload.phase", "workload", "wl_9", 1, 2,
        outcome="refused", reason_code="quota", rule_version="p7", project="pj_1", cluster="cl_1",
        transitions=[Transition(from_="queued", to="reserved", at=5)],
        origin=Origin({"h": "aa"}, {"h": "bb"}, "rq_1"), adapter=Adapter("slurm", "42"),
        extra={"short_by": 3},
    )  # fmt: skip
    actor = ActorRef("us_1", "user", ("gr_1",), "cc")
    value = json.loads(sequence(LogState(), 7, [(actor, draft)], NEW.get).rows[0].body)
    assert value == {
        "v": 1, "seq": 0, "ts": 7, "action": "workload.phase",
        "actor": {"id": "us_1", "kind": "user", "groups": ["gr_1"], "role_bindings_digest": "cc"},
        "origin": {"client": {"h": "aa"}, "ip": {"h": "bb"}, "request_id": "rq_1"},
        "object": {"kind": "workload", "id": "wl_9", "version_before": 1, "version_after": 2},
        "outcome": "refused", "reason_code": "quota", "rule_version": "p7",
        "before_digest": None, "after_digest": None,
        "transitions": [{"from": "queued", "to": "reserved", "at": 5, "sub": None}],
        "streams": [
            {"name": name, "n": 0, "prev": None, "prev_seq": None}
            for name in ("project/pj_1", "object/workload/wl_9", "actor/us_1", "cluster/cl_1")
        ],
        "trace_id": None, "adapter": {"source": "slurm", "source_ref": "42"}, "detail": {"short_by": 3},
    }  # fmt: skip


def test_the_caller_state_is_left_as_it_was_when_a_draft_has_no_canonical_form() -> None:
    state = LogState()
    with pytest.raises(SteelyardError, match="canonical-float"):
        sequence(state, 1, [(ACTOR, LeafDraft("a", "b", "c", extra={"x": 0.5}))], NEW.get)
    with pytest.raises(SteelyardError, match="canonical-not-nfc"):
        sequence(state, 1, [(ACTOR, LeafDraft("a", "b", "e\u0301"))], NEW.get)
    assert state == LogState()


def test_groups_follow_each_other_without_a_gap_and_the_root_is_that_of_all_leaves() -> None:
    state, heads, rows = LogState(epoch=4), dict[str, Head](), []
    for group in range(5):
        items = [(ACTOR, LeafDraft("a", "k", f"o_{nth}")) for nth in range(group * 90)]
        made = sequence(state, group, items, heads.get)
        heads.update(made.heads)
        rows += made.rows
        state = made.state
    assert [row.seq for row in rows] == list(range(900))
    assert state.epoch == 4
    assert state.frontier.root() == root_of([row.hash for row in rows])
    assert verify_bodies(row.body for row in rows) == state.frontier


def test_tiles_come_out_of_the_group_that_completes_them() -> None:
    items = [(ACTOR, LeafDraft("a", "k", "o"))] * 200
    first = sequence(LogState(), 1, items, NEW.get)
    second = sequence(first.state, 2, items, first.heads.get)
    assert first.tiles == []
    assert [(tile.level, tile.index) for tile in second.tiles] == [(0, 0)]
    assert second.tiles[0].blob == b"".join(row.hash for row in [*first.rows, *second.rows][:256])


def test_an_older_state_catches_up_from_the_leaf_hashes() -> None:
    first = sequence(LogState(), 1, [(ACTOR, LeafDraft("a", "k", "o"))] * 300, NEW.get)
    second = sequence(first.state, 1, [(ACTOR, LeafDraft("a", "k", "o"))] * 300, first.heads.get)
    assert advance(first.state, [row.hash for row in second.rows])[1] == second.state


def test_a_stream_heads_leaf_pins_the_heads_asked_for() -> None:
    first = sequence(LogState(), 1, [(ACTOR, LeafDraft("a", "k", "o"))], NEW.get)
    asked = {"object/k/o": first.heads["object/k/o"]}
    made = sequence(first.state, 2, [(ACTOR, stream_heads_draft(asked))], first.heads.get)
    detail = json.loads(made.rows[0].body)["detail"]
    assert detail == {"heads": [{"name": "object/k/o", "n": 1, "seq": 0, "hash": first.rows[0].hash.hex()}]}
