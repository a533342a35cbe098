"""The families: classes, variables that show the bound devices, and variables that hide all others."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from steelyard.devices.catalogue import family_class, load_catalogue, parse_catalogue, visibility_env
from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.resources import ACCELERATORS, DeviceClass


@dataclass(frozen=True)
class Binding:
    uid: str | None
    family: str
    device_class: DeviceClass = DeviceClass.GPU


def test_a_dcu_counts_as_a_gpu_and_aliases_are_known() -> None:
    assert family_class("hygon-dcu") is DeviceClass.GPU
    assert family_class("mlu") is family_class("cambricon-mlu") is DeviceClass.NPU
    assert family_class("cpu") is DeviceClass.CPU


def test_an_unknown_family_has_no_class() -> None:
    with pytest.raises(NotFoundError):
        family_class("abacus")


def test_every_accelerator_has_a_class_and_a_variable_that_hides_it() -> None:
    for family in load_catalogue().families:
        if family.device_class in ACCELERATORS:
            assert any(variable.none is not None for variable in family.visibility), family.name
            assert family.vendor_en
            assert family.vendor_zh


def test_a_member_without_devices_sees_none_of_any_family() -> None:
    env = visibility_env([])
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["HIP_VISIBLE_DEVICES"] == "-1"
    assert {"ASCEND_RT_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "TOPS_VISIBLE_DEVICES"} <= set(env)
    assert "CUDA_DEVICE_ORDER" not in env


def test_nvidia_devices_are_named_by_uuid_in_bus_order() -> None:
    env = visibility_env([Binding("GPU-b", "nvidia"), Binding("GPU-a", "nvidia")])
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_devices_without_a_uuid_are_named_by_index_in_number_order() -> None:
    env = visibility_env([Binding("ascend-10", "ascend"), Binding("ascend-9", "ascend")])
    assert env["ASCEND_RT_VISIBLE_DEVICES"] == "9,10"
    assert env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_device_that_its_runtime_can_not_be_told_of_is_refused_rather_than_shown_all() -> None:
    for uid in (None, "no-number-here", "GPU-0123"):
        with pytest.raises(InvalidError):
            visibility_env([Binding(uid, "ascend")])


def test_two_families_can_not_speak_through_one_variable() -> None:
    with pytest.raises(InvalidError):
        visibility_env([Binding("GPU-a", "nvidia"), Binding("metax-0", "metax")])


def test_cpu_and_memory_bindings_set_nothing() -> None:
    given = [Binding("host-cpu", "cpu", DeviceClass.CPU), Binding(None, "memory", DeviceClass.MEMORY)]
    assert visibility_env(given) == visibility_env([])


def test_another_version_of_the_file_is_not_guessed_at() -> None:
    with pytest.raises(InvalidError):
        parse_catalogue("version: 2\nsource: x\nfamilies: {}\n")
