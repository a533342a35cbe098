"""The declared simulation is read strictly; an error names its place."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.engines.simulated import parse_expect, parse_simulation
from steelyard.engines.simulated.faults import FaultKind
from steelyard.model.errors import InvalidError
from steelyard.model.units import MILLISECOND, SECOND

ROOT = "spec.simulation"
NODE = {"prefix": "a"}


def test_what_the_issue_of_a_cluster_document_says_is_understood() -> None:
    spec = parse_simulation(
        {
            "nodes": [
                {
                    "count": 4,
                    "prefix": "sim-a",
                    "cpu": "32",
                    "memory": "256Gi",
                    "labels": {"zone": "a"},
                    "devices": [
                        {
                            "class": "gpu",
                            "family": "nvidia",
                            "model": "A100-80G",
                            "count": 8,
                            "memory": "80Gi",
                        }
                    ],
                }
            ],
            "timing": {"provision": "50ms", "image": 0, "stop": "1s"},
            "suffer": [{"fault": "node-lost", "match": {"node": "sim-a-1"}, "at": "30s", "for": "10s"}],
        }
    )
    group = spec.nodes[0]
    assert (group.cpu, group.memory, group.devices[0].memory) == (32_000, 262_144, 81_920)
    assert (spec.timing.provision, spec.timing.image, spec.timing.stop) == (50 * MILLISECOND, 0, SECOND)
    assert spec.suffer[0].fault is FaultKind.NODE_LOST
    assert (spec.suffer[0].at, spec.suffer[0].duration) == (30 * SECOND, 10 * SECOND)


@pytest.mark.parametrize(
    ("raw", "code", "path"),
    [
        ([], "field-invalid", ""),
        ({}, "field-missing", "nodes"),
        ({"nodes": [NODE], "extra": 1}, "field-unknown", "extra"),
        ({"nodes": [{"prefix": "a", "gpu": 1}]}, "field-unknown", "nodes[0].gpu"),
        ({"nodes": [{"count": 2}]}, "field-missing", "nodes[0].prefix"),
        ({"nodes": [{"prefix": "../x"}]}, "field-invalid", "nodes[0].prefix"),
        ({"nodes": [{"prefix": "\x1b[2J"}]}, "field-invalid", "nodes[0].prefix"),
        ({"nodes": [{"prefix": "a" * 10_000_000}]}, "field-invalid", "nodes[0].prefix"),
        ({"nodes": [NODE, NODE]}, "field-invalid", "nodes[1].prefix"),
        ({"nodes": [{**NODE, "count": 20_001}]}, "field-out-of-bounds", "nodes[0].count"),
        ({"nodes": [{**NODE, "count": True}]}, "field-invalid", "nodes[0].count"),
        ({"nodes": [{**NODE, "count": 1.5}]}, "field-invalid", "nodes[0].count"),
        ({"nodes": [{**NODE, "cpu": "-1"}]}, "quantity-invalid", "nodes[0].cpu"),
        ({"nodes": [{**NODE, "cpu": float("nan")}]}, "quantity-invalid", "nodes[0].cpu"),
        ({"nodes": [{**NODE, "cpu": 10**30}]}, "quantity-invalid", "nodes[0].cpu"),
        ({"nodes": [{**NODE, "memory": "9999999999Ti"}]}, "quantity-too-large", "nodes[0].memory"),
        ({"nodes": [{**NODE, "labels": {"zone": 1}}]}, "field-invalid", "nodes[0].labels.zone"),
        ({"nodes": [NODE], "timing": {"launch": "soon"}}, "duration-invalid", "timing.launch"),
        ({"nodes": [NODE], "timing": {"boot": "1s"}}, "field-unknown", "timing.boot"),
        ({"nodes": [NODE], "suffer": {}}, "field-invalid", "suffer"),
    ],
)  # fmt: skip
def test_an_error_names_its_place(raw: object, code: str, path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_simulation(raw)
    assert (caught.value.code, caught.value.params["path"]) == (code, f"{ROOT}.{path}".rstrip("."))


@pytest.mark.parametrize(
    ("suffering", "code", "key"),
    [
        ({"fault": "plague"}, "field-invalid", "fault"),
        ({}, "field-missing", "fault"),
        ({"fault": "stale", "count": 1}, "field-unknown", "count"),
        ({"fault": "cluster-lost", "match": {"node": "a"}}, "field-unknown", "match.node"),
        ({"fault": "start-failure", "match": {"device": "a"}}, "field-unknown", "match.device"),
        ({"fault": "start-failure", "match": {"attempt": 0}}, "field-out-of-bounds", "match.attempt"),
        ({"fault": "late-reply"}, "field-missing", "delay"),
        ({"fault": "node-lost", "after": "1s"}, "field-invalid", "after"),
        ({"fault": "lost-reply", "calls": ["logs"]}, "field-invalid", "calls[0]"),
        ({"fault": "node-lost", "gone": "soon"}, "duration-invalid", "gone"),
        ({"fault": "stuck-release", "for": -1}, "duration-invalid", "for"),
    ],
)
def test_a_key_that_means_nothing_for_a_fault_is_refused(
    suffering: dict[str, Any], code: str, key: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_simulation({"nodes": [NODE], "suffer": [suffering]})
    assert (caught.value.code, caught.value.params["path"]) == (code, f"{ROOT}.suffer[0].{key}")


def test_an_unknown_key_is_shown_without_its_control_characters() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_simulation({"nodes": [NODE], "\x1b[31mred": 1})
    assert caught.value.params["path"] == f"{ROOT}.?[31mred"


def test_more_devices_than_allowed_are_refused_before_they_are_made() -> None:
    device = {"class": "gpu", "family": "nvidia", "model": "A", "count": 100}
    with pytest.raises(InvalidError) as caught:
        parse_simulation({"nodes": [{**NODE, "count": 20_000, "devices": [device]}]})
    assert caught.value.code == "field-out-of-bounds"


def test_equal_sufferings_have_keys_of_their_own_and_keep_them() -> None:
    one = {"fault": "doubled"}
    first = parse_simulation({"nodes": [NODE], "suffer": [one, one]}).suffer
    again = parse_simulation({"nodes": [NODE], "suffer": [{"fault": "stale"}, one, one]}).suffer
    assert first[0].key != first[1].key
    assert {s.key for s in first} < {s.key for s in again}


def test_a_fault_of_one_reply_comes_once_unless_a_count_says_more() -> None:
    raw = [{"fault": "doubled"}, {"fault": "doubled", "count": 3}, {"fault": "start-failure"}]
    assert [s.count for s in parse_simulation({"nodes": [NODE], "suffer": raw}).suffer] == [1, 3, None]


def test_a_member_without_expectations_runs_a_second_and_a_service_until_it_is_stopped() -> None:
    assert parse_expect({}).run == SECOND
    assert parse_expect({}, service=True).run is None
    assert parse_expect({"run": "forever"}).run is None
    assert parse_expect({"exit": "3"}).exit_code == 3


def test_a_signal_that_ends_a_member_leaves_no_exit_code() -> None:
    behaviour = parse_expect({"signal": "11"})
    assert (behaviour.exit_code, behaviour.exit_signal) == (None, 11)


@pytest.mark.parametrize(
    "expect",
    [{"run": "x"}, {"exit": "256"}, {"exit": "-1"}, {"exit": "²"}, {"ignore-term": "si"}, {"fly": "1"}],
)
def test_an_expectation_that_is_not_understood_is_refused(expect: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        parse_expect(expect)
