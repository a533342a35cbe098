"""Shape 14: every leaf stands in its streams, each with counter, previous hash and previous seq."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, LogState, sequence
from steelyard.evidence.merkle import leaf_hash

ALICE, LOOP = ActorRef("us_1"), ActorRef("sv_schedule", "service")


def draft(workload: str, project: str | None = "pj_1", cluster: str | None = None) -> LeafDraft:
    return LeafDraft("workload.phase", "workload", workload, project=project, cluster=cluster)


GROUPS = [
    [(ALICE, draft("wl_1")), (ALICE, draft("wl_2")), (LOOP, draft("wl_1", cluster="cl_1"))],
    [(LOOP, draft("wl_2", cluster="cl_1")), (ALICE, draft("wl_3", project="pj_2"))],
    [(LOOP, draft("wl_1", cluster="cl_2")), (LOOP, draft("nd_1", project=None, cluster="cl_1"))],
]
Log = tuple[list[bytes], dict[str, Head]]


@pytest.fixture(scope="module")
def log() -> Log:
    """Bodies of the leaves of GROUPS, committed group by group, and where every stream stands."""
    state, heads = LogState(), dict[str, Head]()
    bodies: list[bytes] = []
    for ts, group in enumerate(GROUPS):
        made = sequence(state, ts, group, heads.get)
        state = made.state
        heads.update(made.heads)
        bodies += [row.body for row in made.rows]
    return bodies, heads


def entries(bodies: list[bytes], name: str) -> list[tuple[bytes, dict[str, Any]]]:
    """(body, stream entry) of each leaf that stands in the stream, in order of the log."""
    found = [(body, entry) for body in bodies for entry in json.loads(body)["streams"]]
    return [(body, entry) for body, entry in found if entry["name"] == name]


def complete(part: list[tuple[bytes, dict[str, Any]]], head: Head) -> bool:
    """Whether a slice is the whole stream up to `head`: no gap, linked, and the end is there."""
    previous: str | None = None
    for nth, (body, entry) in enumerate(part):
        if entry["n"] != nth or entry["prev"] != previous:
            return False
        previous = leaf_hash(body).hex()
    return len(part) == head.n and previous == head.hash.hex()


def test_the_streams_of_a_leaf_are_project_object_actor_and_cluster_or_system(log: Log) -> None:
    names = [[entry["name"] for entry in json.loads(body)["streams"]] for body in log[0]]
    assert names[0] == ["project/pj_1", "object/workload/wl_1", "actor/us_1", "system"]
    assert names[2] == ["project/pj_1", "object/workload/wl_1", "actor/sv_schedule", "cluster/cl_1"]
    assert names[-1] == ["object/workload/nd_1", "actor/sv_schedule", "cluster/cl_1"]


def test_every_stream_is_complete_up_to_its_head(log: Log) -> None:
    bodies, heads = log
    assert len(heads) == 11
    for name, head in heads.items():
        assert complete(entries(bodies, name), head), name


def test_a_slice_without_any_one_of_its_leaves_is_seen_to_be_incomplete(log: Log) -> None:
    bodies, heads = log
    for name, head in heads.items():
        whole = entries(bodies, name)
        for gone in range(len(whole)):
            assert not complete(whole[:gone] + whole[gone + 1 :], head), (name, gone)


def test_a_stream_is_walked_back_by_seq_alone(log: Log) -> None:
    bodies, heads = log
    for name, head in heads.items():
        walked, seq = 0, head.seq
        while seq is not None:
            (entry,) = [one for one in json.loads(bodies[seq])["streams"] if one["name"] == name]
            walked, seq = walked + 1, entry["prev_seq"]
        assert walked == head.n


def test_leaves_of_one_group_that_share_a_stream_are_chained(log: Log) -> None:
    first, third = (json.loads(log[0][nth]) for nth in (0, 2))
    assert third["streams"][1]["prev"] == leaf_hash(log[0][0]).hex()
    assert (third["streams"][1]["n"], third["streams"][1]["prev_seq"]) == (1, first["seq"])
