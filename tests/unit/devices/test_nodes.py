"""What a Kubernetes node shows of its devices: the same name may mean cards, shares or parts of cards."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.facts import load_facts, parse_kubernetes
from steelyard.devices.hami import devices_of, family_of
from steelyard.devices.nodes import NodeDevices, Offer, devices_on, quantity
from steelyard.devices.reading import ProblemCode
from steelyard.model.health import Health

CARD = {"id": "GPU-11111111-aaaa-4bbb-8ccc-000000000001", "count": 10, "devmem": 163840, "devcore": 100}
REGISTER = "hami.io/node-nvidia-register"


def node(
    capacity: dict[str, str],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
) -> NodeDevices:
    gives = capacity if allocatable is None else allocatable
    return devices_on(load_facts(), labels or {}, annotations or {}, capacity, gives)


def offer(found: NodeDevices) -> Offer:
    assert len(found.offers) == 1
    return found.offers[0]


def nvidia(sharing: str = "none", product: str = "NVIDIA-A100-SXM4-80GB", **more: str) -> dict[str, str]:
    return {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.sharing-strategy": sharing,
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/cuda.driver-version.full": "550.54.15",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


# -- what a name means ---------------------------------------------------------------------------------------


def test_a_name_of_one_meaning_needs_no_label() -> None:
    found = node({"habana.ai/gaudi": "8", "cpu": "96", "memory": "1Ti", "example.com/nic": "2"})
    assert offer(found) == Offer("habana.ai/gaudi", "intel-gaudi", "device", 8, 8)
    assert found.cards("intel-gaudi") == 8


def test_nvidias_name_counts_cards_where_labels_say_that_none_is_shared() -> None:
    found = node({"nvidia.com/gpu": "4"}, nvidia())
    assert (offer(found).kind, found.cards("nvidia")) == ("device", 4)


def test_nvidias_name_counts_shares_where_labels_say_that_cards_are_shared() -> None:
    found = node({"nvidia.com/gpu": "40"}, nvidia("time-slicing", "NVIDIA-A100-SXM4-80GB-SHARED"))
    assert (offer(found).kind, offer(found).capacity) == ("count", 40)
    assert found.cards("nvidia") == 4
    assert found.facts["nvidia"]["model"] == "NVIDIA-A100-SXM4-80GB"


def test_nvidias_name_alone_is_no_number_of_cards() -> None:
    found = node({"nvidia.com/gpu": "40"})
    assert offer(found) == Offer("nvidia.com/gpu", "nvidia", None, 40, 40)
    assert found.cards("nvidia") is None


def test_a_node_with_one_mig_strategy_offers_parts_whose_memory_and_number_are_not_the_cards() -> None:
    labels = nvidia(product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb") | {"nvidia.com/mig.strategy": "single"}
    found = node({"nvidia.com/gpu": "56"}, labels)
    assert (offer(found).kind, offer(found).part) == ("slice", "1g.5gb")
    assert found.cards("nvidia") is None
    told = found.facts["nvidia"]
    assert told["model"] == "NVIDIA-A100-SXM4-40GB"
    assert "memory" not in told
    assert "cards" not in told


def test_a_mig_profile_in_the_name_is_the_part() -> None:
    found = offer(node({"nvidia.com/mig-3g.40gb": "2"}))
    assert (found.kind, found.part, found.capacity) == ("slice", "mig-3g.40gb", 2)


def test_with_hami_in_charge_nvidias_name_counts_shares_and_the_listed_devices_are_the_cards() -> None:
    found = node({"nvidia.com/gpu": "20"}, nvidia(), {REGISTER: json.dumps([CARD | {"health": True}])})
    assert (offer(found).kind, offer(found).by) == ("count", "hami")
    assert found.cards("nvidia") == 1


def test_intels_name_counts_shares_where_there_are_more_than_cards() -> None:
    def seen(amount: str) -> str | None:
        return offer(node({"gpu.intel.com/i915": amount}, {"gpu.intel.com/device.count": "2"})).kind

    assert (seen("2"), seen("20")) == ("device", "count")
    assert offer(node({"gpu.intel.com/i915": "2"})).kind is None


def test_blocks_of_memory_carry_what_one_is_worth() -> None:
    found = node({"cambricon.com/mlu370.smlu.vmemory": "94"})
    assert (offer(found).kind, offer(found).mib, offer(found).capacity) == ("memory", 256, 94)


def test_what_is_seen_once_is_not_built_on() -> None:
    assert node({"birentech.com/1-2-gpu": "4"}).offers == ()


def test_allocatable_may_be_less_than_there_is_or_missing() -> None:
    assert offer(node({"habana.ai/gaudi": "8"}, allocatable={"habana.ai/gaudi": "7"})).allocatable == 7
    assert offer(node({"habana.ai/gaudi": "8"}, allocatable={})).allocatable is None


# -- labels and quantities -----------------------------------------------------------------------------------


def test_labels_tell_model_memory_and_driver() -> None:
    told = node({}, nvidia()).facts["nvidia"]
    assert told["memory"] == 81920
    assert told["driver"] == "550.54.15"


def test_a_label_whose_value_is_no_number_tells_none() -> None:
    labels = {"cloud.google.com/gke-accelerator-count": "4x", "cloud.google.com/gke-tpu-topology": "2x2"}
    assert node({}, labels).facts["google-tpu"] == {"topology": "2x2"}


def test_of_two_labels_that_tell_different_things_neither_is_believed() -> None:
    known = replace(load_facts(), kubernetes=parse_kubernetes("""
version: 1
source: made for this test
families:
  nvidia:
    resources: []
    labels:
      - {key: a/model, by: one, tells: model}
      - {key: b/model, by: other, tells: model}
      - {key: c/driver, by: other, tells: driver}
"""))
    labels = {"a/model": "A100", "b/model": "H100", "c/driver": "550"}
    assert devices_on(known, labels, {}, {}, {}).facts == {"nvidia": {"driver": "550"}}
    agreed = devices_on(known, labels | {"b/model": "A100"}, {}, {}, {}).facts
    assert agreed == {"nvidia": {"model": "A100", "driver": "550"}}


@pytest.mark.parametrize(
    ("text", "amount"),
    [("8", 8), ("98k", 98_000), ("2Gi", 2 << 30), ("0", 0), ("500m", None), ("1.5", None), ("", None)],
)
def test_quantities_are_whole_numbers_with_kubernetes_suffixes(text: str, amount: int | None) -> None:
    assert quantity(text) == amount


def test_an_amount_that_is_none_is_told_of_and_unknown() -> None:
    found = node({"habana.ai/gaudi": "eight"})
    assert offer(found).capacity is None
    assert [problem.code for problem in found.problems] == [ProblemCode.ROW_INCOMPLETE] * 2
    assert found.cards("intel-gaudi") is None


# -- what HAMi lists -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("hami.io/node-hcu-register", "hygon-dcu"),
        ("hami.io/node-register-xpu", "kunlunxin"),
        ("hami.io/node-register-Ascend910B3", "ascend"),
        ("hami.io/node-MR-V100-register", "iluvatar"),
        ("metax-tech.com/node-gpu-devices", "metax"),
        ("hami.io/node-handshake", None),
        ("hami.io/node-va-register", None),
    ],
)
def test_each_plug_in_has_its_own_annotation(key: str, family: str | None) -> None:
    assert family_of(key) == family


def test_the_json_form_leaves_out_zero_and_false() -> None:
    (reading,) = devices_of({REGISTER: json.dumps([CARD])}).readings
    assert (reading.index, reading.other["numa"]) == (0, 0)
    assert reading.health is Health.UNHEALTHY


def test_a_number_that_two_devices_have_is_neithers() -> None:
    other = CARD | {"id": "GPU-11111111-aaaa-4bbb-8ccc-000000000002", "health": True}
    found = devices_of({REGISTER: json.dumps([CARD, other])})
    assert [reading.index for reading in found.readings] == [None, None]


def test_memory_that_is_offered_is_no_figure_of_the_card() -> None:
    (reading,) = devices_of({REGISTER: json.dumps([CARD])}).readings
    assert reading.memory is None
    assert reading.other["memory_offered"] == 163840


def test_the_plug_in_of_metax_has_keys_of_its_own() -> None:
    card = {"uuid": "GPU-99999999", "bdf": "0000:0e:00.0", "model": "MXC500", "healthy": True}
    (reading,) = devices_of({"metax-tech.com/node-gpu-devices": json.dumps([card])}).readings
    assert (reading.pci, reading.model, reading.health) == ("0000:0e:00.0", "MXC500", Health.HEALTHY)


def test_a_record_of_the_older_text_form_has_no_index() -> None:
    (reading,) = devices_of({"hami.io/node-dcu-register": "DCU-1234,4,16384,100,Z100,-1,true:"}).readings
    assert (reading.index, reading.health) == (None, Health.HEALTHY)
    assert "numa" not in reading.other


def test_a_record_without_its_colon_was_cut() -> None:
    found = devices_of({"hami.io/node-dcu-register": "DCU-1234,4,16384,100,Z100,0,true,0,hami-core"})
    assert found.readings == ()
    assert [problem.code for problem in found.problems] == [ProblemCode.TRUNCATED]


def test_an_empty_list_says_that_there_is_no_device() -> None:
    for value in ("", "[]"):
        assert [one.code for one in devices_of({REGISTER: value}).problems] == [ProblemCode.NO_DEVICE]


_METAX = "metax-tech.com/node-gpu-devices"
_KEYS = st.sampled_from([REGISTER, "hami.io/node-dcu-register", _METAX, "nvidia.com/gpu.count"])
_MEMBERS = st.sampled_from([*CARD, "health", "index", "uuid"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_MEMBERS, inner, max_size=4),
    max_leaves=12,
)
_TEXT_FORM = st.from_regex(r"[a-z0-9,:{}\[\]]{0,40}", fullmatch=True)
_VALUES = st.text(max_size=60) | _JSON.map(json.dumps) | _TEXT_FORM


@given(labels=st.dictionaries(_KEYS, _VALUES), annotations=st.dictionaries(_KEYS, _VALUES), offered=_VALUES)
@settings(max_examples=200, deadline=None)
def test_nothing_on_a_node_makes_reading_it_fail(
    labels: dict[str, str], annotations: dict[str, str], offered: str
) -> None:
    found = node({"nvidia.com/gpu": offered}, labels, annotations)
    for reading in found.readings:
        assert reading.complete or reading.health is Health.UNKNOWN
    assert len(found.offers) == 1
