"""The catalogue as data: complete for every family, closed in its words, unconfirmed things left out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.facts import (
    load_facts,
    parse_capabilities,
    parse_kubernetes,
    parse_signals,
    parse_tools,
)
from steelyard.devices.failing import FAILURES
from steelyard.devices.parsers import PARSERS
from steelyard.devices.probes import load_probes
from steelyard.devices.vendors.ascend_words import FAILURE_TEXTS as ASCEND_TEXTS
from steelyard.devices.vendors.nvidia_kernel import IGNORED
from steelyard.devices.vendors.nvidia_words import FAILURE_TEXTS as NVIDIA_TEXTS
from steelyard.model.errors import InvalidError
from steelyard.model.health import Health, SignCode
from steelyard.model.resources import ACCELERATORS

FACTS = load_facts()
CATALOGUE = load_catalogue()
ACCELERATED = [one.name for one in CATALOGUE.families if one.device_class in ACCELERATORS]


@pytest.mark.parametrize("name", ACCELERATED)
def test_every_accelerator_family_is_described_in_every_part_of_the_catalogue(name: str) -> None:
    family = CATALOGUE.by_name[name]
    assert family.pci_vendors or name in ("biren", "aws-neuron")  # whose vendor id was not confirmed
    assert family.nodes
    assert family.visibility
    assert any(layout.family == name and layout.tool for layout in FACTS.layouts)
    assert any(capability.family == name for capability in FACTS.capabilities)
    whole = [one for one in FACTS.kubernetes[name].resources if one.kind == "device"]
    assert whole
    assert not all(one.unconfirmed for one in whole)


def test_every_part_speaks_of_families_that_there_are() -> None:
    names = {family.name for family in CATALOGUE.families}
    assert set(FACTS.kubernetes) == names
    assert {layout.family for layout in FACTS.layouts} <= names
    assert {capability.family for capability in FACTS.capabilities} == names
    assert {model.family for model in FACTS.models} <= names
    assert {signal.family for signal in FACTS.signals} <= names


def test_the_layouts_that_the_catalogue_lists_are_those_that_can_be_read() -> None:
    listed = {(one.family, one.tool, one.name) for one in FACTS.layouts}
    readable = {
        (layout.family, tool, layout.name)
        for tool, layouts in PARSERS.items()
        for layout in layouts
        if layout.name != FAILURES and layout.family
    }
    assert listed == readable


def is_form_of(asked: str, command: str) -> bool:
    """Whether a call is a command of the catalogue, in which <x> stands for anything."""
    parts = [re.escape(part) for part in re.split("<[a-z ]+>", command)]
    return re.fullmatch(".+".join(parts), asked) is not None


def test_what_the_probe_asks_is_asked_of_tools_that_the_catalogue_has() -> None:
    known = [(one.family, one.command) for one in (*FACTS.layouts, *FACTS.unread)]
    for name, probe in load_probes().items():
        for tool in probe.tools:
            for question in tool.questions:
                asked = " ".join((tool.name, *question.arguments))
                assert any(name == family and is_form_of(asked, command) for family, command in known), asked


def test_a_signal_that_is_read_names_a_layout_that_there_is() -> None:
    readable = {f"{tool}/{layout.name}" for tool, layouts in PARSERS.items() for layout in layouts}
    readers = {signal.reader for signal in FACTS.signals if signal.reader is not None}
    assert readers - readable == {"device-files"}


def test_xids_that_are_ignored_are_those_of_the_catalogue() -> None:
    (xid,) = [s for s in FACTS.signals if s.reader == "kernel-log/nvidia-xid" and s.sign is SignCode.XID]
    assert set(xid.ignored) == IGNORED


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (NVIDIA_TEXTS, ["No devices were found", "Failed to initialize NVML", "communicate with the NVIDIA"]),
        (ASCEND_TEXTS, ["Invalid card id", "Error parameter of -i", "dcmi module initialize failed"]),
    ],
)
def test_the_texts_by_which_a_tool_says_that_it_failed_are_known(texts: object, words: list[str]) -> None:
    assert isinstance(texts, tuple)
    assert all(any(word in text.text for text in texts) for word in words)


def test_what_is_unconfirmed_is_left_out_unless_it_is_asked_for() -> None:
    assert FACTS.can("biren", "partition") == ()
    assert [one.mode for one in FACTS.can("biren", "partition", unconfirmed=True)] == ["svi"]
    assert FACTS.resource("birentech.com/1-2-gpu") == ()
    assert FACTS.resource("birentech.com/1-2-gpu", unconfirmed=True)
    assert FACTS.kubernetes["enflame"].drivers == ()
    assert CATALOGUE.by_name["ascend"].model_of("0xd801") == "910A"
    assert CATALOGUE.by_name["ascend"].model_of("0xd802") is None
    assert CATALOGUE.by_name["intel-gaudi"].model_of("0x1020") == "Gaudi2"


def test_no_unconfirmed_signal_speaks_for_more_than_degraded() -> None:
    assert all(s.health is Health.DEGRADED for s in FACTS.signals if s.unconfirmed)


def test_a_resource_name_says_what_it_counts_and_in_which_unit() -> None:
    (memory,) = FACTS.resource("mthreads.com/sgpu-memory")
    assert (memory.family, memory.kind, memory.mib) == ("moorethreads", "memory", 512)
    (part,) = FACTS.resource("nvidia.com/mig-3g.40gb")
    assert (part.family, part.kind) == ("nvidia", "slice")
    assert {one.kind for one in FACTS.resource("nvidia.com/gpu")} == {"device", "count"}
    assert FACTS.resource("example.com/gpu") == ()
    assert FACTS.resource("nvidia.com/mig-3g.40gb.extra") == ()


HEAD = "version: 1\nsource: x\nfamilies: "


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_tools, "version: 2\nsource: x\nfamilies: {}\n"),
        (parse_tools, HEAD + "{a: {t: {layouts: {q: {command: c, format: xml}}}}}"),
        (parse_capabilities, "words: {}\nmodels: {}\n" + HEAD + "{a: {fly: [{mode: m}]}}"),
        (parse_kubernetes, HEAD + "{a: {labels: [], resources: [{name: n, kind: memory}]}}"),
        (parse_kubernetes, HEAD + "{a: {labels: [], resources: [], more: 1}}"),
        (parse_signals, HEAD + "{a: [{signal: s, sign: xid, health: unhealthy, unconfirmed: true}]}"),
        (parse_signals, HEAD + "{a: [{signal: s, sign: omen, health: unhealthy}]}"),
    ],
)
def test_a_file_that_says_something_unknown_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(InvalidError):
        parse(text)
