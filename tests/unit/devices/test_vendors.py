"""What the samples do not show of the vendors' tools: rarer rows, words and forms, one behaviour each."""

from __future__ import annotations

import json

import pytest

from steelyard.devices.ask import merged
from steelyard.devices.parsers import KERNEL_LOG, parse
from steelyard.devices.reading import ProblemCode, Reading
from steelyard.model.health import Health, SignCode

UUID = "GPU-11111111-aaaa-4bbb-8ccc-00000000000{}"


def codes(reading: Reading) -> list[SignCode]:
    return [sign.code for sign in reading.signs]


def test_a_tool_or_layout_that_is_not_known_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        parse("abacus", None, "x\n")
    with pytest.raises(KeyError):
        parse("nvidia-smi", "abacus", "x\n")


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        (
            "npu-smi: error while loading shared libraries: libdrvdsmi.so: cannot open",
            SignCode.LIBRARY_MISSING,
        ),
        ("open /dev/davinci_manager: Permission denied", SignCode.PERMISSION_DENIED),
        ("sh: npu-smi: command not found", SignCode.TOOL_MISSING),
    ],
)
def test_what_loader_and_shell_say_tells_which_step_failed(line: str, sign: SignCode) -> None:
    parsed = parse("npu-smi", None, f"{line}\n")
    assert [problem.sign for problem in parsed.problems] == [sign]
    assert parsed.layout is None


def test_text_in_another_language_is_not_recognised_and_gives_no_device() -> None:
    text = "+---+\n| 设备  名称 | 健康状态 |\n+===+\n| 0  910B3 | 正常 |\n+===+\n"
    parsed = parse("npu-smi", None, text)
    assert parsed.readings == ()
    assert [problem.code for problem in parsed.problems] == [ProblemCode.UNRECOGNISED]


# -- nvidia-smi --------------------------------------------------------------------------------------------


def query(
    *rows: str, header: str = "index, uuid, name, pci.bus_id, fan.speed [%], utilization.gpu [%]"
) -> str:
    return "\n".join([header, *rows]) + "\n"


def test_columns_follow_the_heading_and_one_that_is_not_known_tells_nothing() -> None:
    text = query(f"0, {UUID.format(0)}, NVIDIA L4, 00000000:05:00.0, 33 %, 7 %")
    (reading,) = parse("nvidia-smi", None, text).readings
    assert (reading.model, reading.pci, reading.utilisation, reading.other) == (
        "NVIDIA L4",
        "0000:05:00.0",
        7,
        {},
    )


def test_a_shifted_row_is_incomplete_and_its_neighbour_is_not() -> None:
    good = f"0, {UUID.format(0)}, NVIDIA L4, 00000000:05:00.0, 33 %, 7 %"
    shifted = f"1, {UUID.format(1)}, NVIDIA L4, 33 %, 00000000:06:00.0, 7 %"
    first, second = parse("nvidia-smi", None, query(shifted, good)).readings
    assert not first.complete
    assert (first.index, first.uuid, first.utilisation) == (1, UUID.format(1), None)
    assert second.utilisation == 7


def test_a_lost_card_among_rows_of_a_query_is_told_with_its_place() -> None:
    lost = "Unable to determine the device handle for GPU1: 0000:06:00.0: GPU is lost."
    rows = query(f"0, {UUID.format(0)}, NVIDIA L4, 00000000:05:00.0, 33 %, 7 %", lost)
    good, gone = parse("nvidia-smi", None, rows).readings
    assert good.health is Health.HEALTHY
    assert (gone.index, gone.pci, gone.health, codes(gone)) == (
        1,
        "0000:06:00.0",
        Health.MISSING,
        [SignCode.FELL_OFF_BUS],
    )


TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:0A:00.0 Off |                    2 |
| N/A   43C    P0             71W /  700W |      87MiB /  81559MiB |      N/A  Prohibited |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0    1    0       4242      C   python train.py                              512MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_the_table_tells_modes_errors_and_processes() -> None:
    parsed = parse("nvidia-smi", None, TABLE)
    (reading,) = parsed.readings
    assert parsed.processes
    assert reading.mig is True
    assert set(codes(reading)) == {SignCode.ECC_UNCORRECTED, SignCode.COMPUTE_OFF}
    assert reading.holders is not None
    assert [(one.pid, one.name, one.memory) for one in reading.holders] == [(4242, "python train.py", 512)]


def test_a_card_that_is_lost_is_told_of_beside_the_table() -> None:
    lost = "Unable to determine the device handle for GPU1: 0000:0B:00.0: Unknown Error\n"
    table, gone = parse("nvidia-smi", None, lost + TABLE).readings
    assert table.complete
    assert (gone.complete, gone.index, gone.pci) == (False, 1, "0000:0b:00.0")


def test_a_list_of_processes_that_was_cut_lists_nobody() -> None:
    cut = TABLE[: TABLE.rindex("+---")]
    (reading,) = parse("nvidia-smi", None, cut).readings
    assert reading.holders is None


def test_xids_of_programs_say_nothing_against_the_card() -> None:
    lines = "".join(
        f"[ 1.0] NVRM: Xid (PCI:0000:44:00): {xid}, pid=1, name=x\n" for xid in (13, 31, 43, 45, 68, 109)
    )
    assert parse(KERNEL_LOG, None, lines, family="nvidia").readings == ()
    assert parse(KERNEL_LOG, None, lines, family="nvidia").problems == ()


def test_xids_are_counted_by_card_and_a_cut_number_is_none() -> None:
    line = "NVRM: Xid (PCI:0000:{}:00): {}, pid=1\n"
    text = line.format("44", 48) * 3 + line.format("45", 94) + "NVRM: Xid (PCI:0000:46:00): 7"
    first, second = parse(KERNEL_LOG, None, text, family="nvidia").readings
    assert [sign.params for sign in first.signs] == [{"xid": 48, "times": 3}]
    assert (second.pci, second.health) == ("0000:45:00.0", Health.UNHEALTHY)


# -- npu-smi -----------------------------------------------------------------------------------------------

INFO = """\
+---------------------------+---------------+----------------------------------------------------+
| npu-smi 25.2.0                   Version: 25.2.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     {name:<20}| {health:<14}| 92.9        37                0/0                  |
| 0                         | 0000:C1:00.0  | {load:<11} 1507/44280        {hbm:<20} |
+===========================+===============+====================================================+
"""


def info(health: str = "OK", load: str = "5", hbm: str = "3379/ 65536", name: str = "910B3") -> Reading:
    (reading,) = parse("npu-smi", None, INFO.format(health=health, load=load, hbm=hbm, name=name)).readings
    return reading


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("OK", Health.HEALTHY),
        ("Warning", Health.DEGRADED),
        ("Alarm", Health.UNHEALTHY),
        ("Critical", Health.UNHEALTHY),
        ("UNKNOWN", Health.UNKNOWN),
    ],
)
def test_each_word_of_health_is_one_of_ours(word: str, health: Health) -> None:
    assert info(word).health is health
    assert info(word).complete


def test_a_word_of_health_that_is_not_known_leaves_the_row_incomplete() -> None:
    assert not info("正常").complete
    assert info("正常").memory is None


def test_a_card_without_hbm_is_told_by_its_other_memory() -> None:
    assert (info(hbm="0 / 0").memory, info(hbm="0 / 0").memory_used) == (44280, 1507)
    assert info(hbm="3379/65536").other == {"chip": 0, "ddr": 44280, "ddr_used": 1507}


def test_a_figure_that_can_not_be_one_leaves_the_row_incomplete() -> None:
    assert not info(load="187").complete
    assert not info(hbm="3379").complete


def test_the_map_of_chips_follows_its_heading() -> None:
    text = "NPU ID    Chip ID    Chip Logic ID    Chip Phy-ID    Chip Name\n3    1    5    7    Ascend910\n"
    (reading,) = parse("npu-smi", None, text).readings
    assert (reading.module, reading.other, reading.in_container, reading.host_index) == (3, {"chip": 1}, 5, 7)


def test_chips_of_both_lists_are_the_same_by_card_and_chip_and_not_by_number() -> None:
    """Logic ids close up behind a lost card; the numbers of `info` do not."""
    chip = "| {0}     Ascend910 | OK | 161.9 32 0/0 |\n| {1}  {2} | 0000:9{2}:00.0 | 0 0/0 1/65536 |\n+===+\n"
    head = (
        "+---+\n| npu-smi 25.2.0  Version: 25.2.0 |\n+---+\n"
        "| NPU Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n"
        "| Chip Phy-ID | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n+===+\n"
    )
    listed = parse("npu-smi", None, head + chip.format(1, 0, 2) + chip.format(1, 1, 3)).readings
    rows = "1    0    0    Ascend910\n1    1    1    Ascend910\n"
    mapped = parse("npu-smi", None, "NPU ID    Chip ID    Chip Logic ID    Chip Name\n" + rows).readings
    both = merged(listed, mapped)
    assert [(one.index, one.host_index, one.in_container) for one in both] == [(2, 2, 0), (3, 3, 1)]


# -- rocm-smi and what was made from it ----------------------------------------------------------------------


def test_the_tool_of_hygon_is_known_by_its_words_whatever_it_is_called() -> None:
    text = json.dumps({"card0": {"DCU use (%)": "3", "vram Total Memory (MiB)": "65520"}}) + "\n"
    assert parse("rocm-smi", None, text).readings[0].family == "hygon-dcu"
    foreign = parse("rocm-smi", None, text, family="amd")
    assert (foreign.readings, foreign.problems[0].sign) == ((), SignCode.TOOL_FOREIGN)


def test_a_card_with_a_figure_that_can_not_be_one_is_incomplete_and_keeps_who_it_is() -> None:
    cards = {
        "card0": {"GPU use (%)": "many", "PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": "17163091968"},
        "card1": {"GPU use (%)": 7.5, "PCI Bus": "0000:04:00.0"},
        "card2": "gone",
    }
    broken, good, gone = parse("rocm-smi", None, json.dumps(cards) + "\n").readings
    assert (broken.complete, broken.index, broken.pci, broken.memory) == (False, 0, "0000:03:00.0", None)
    assert (good.complete, good.utilisation, good.memory) == (True, 7, None)
    assert (gone.complete, gone.index) == (False, 2)


def test_lines_by_device_are_read_for_amd_too() -> None:
    text = (
        "GPU[0]\t\t: GPU use (%): 12\nGPU[0]\t\t: VRAM Total Memory (B): 17163091968\n"
        "GPU[1]\t\t: GPU use (%): 3\n"
    )
    first, second = parse("rocm-smi", None, text).readings
    assert (first.family, first.utilisation, first.memory) == ("amd", 12, 16368)
    assert (second.index, second.utilisation) == (1, 3)


def test_memory_of_amd_smi_is_read_in_the_unit_it_names() -> None:
    item = {"gpu": 3, "vram": {"size": {"value": 192, "unit": "GB"}}, "bus": {"bdf": "0000:05:00.0"}}
    (reading,) = parse("amd-smi", None, json.dumps({"gpu_data": [item]}) + "\n").readings
    assert reading.memory == 196608
    item["vram"] = {"size": [1]}
    assert not parse("amd-smi", None, json.dumps([item]) + "\n").readings[0].complete


# -- cnmon -------------------------------------------------------------------------------------------------

CNMON = """\
+------------------------------------------------------------------------------+
| CNMON v5.10.13                                               Driver v5.10.13 |
+-------------------------------+----------------------+-----------------------+
| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | SR-IOV   Compute-Mode |
|===============================+======================+=======================|
| 0     {vf}   MLU370-X8    v1.1.6 |         0000:1b:00.0 | 0%                {ecc:>3} |
|  0%   32C        106 W/ 250 W |     0 MiB/ 23374 MiB | N/A     {mode:>13} |
+-------------------------------+----------------------+-----------------------+
"""


def cnmon(vf: str = "/", ecc: str = "0", mode: str = "Default") -> Reading:
    (reading,) = parse("cnmon", None, CNMON.format(vf=vf, ecc=ecc, mode=mode)).readings
    return reading


def test_errors_that_cnmon_counts_without_saying_which_are_a_warning() -> None:
    assert (cnmon(ecc="3").health, cnmon(ecc="3").ecc_uncorrected) == (Health.DEGRADED, None)
    assert cnmon(ecc="3").other == {"ecc_errors": 3}


def test_a_card_on_which_nothing_may_compute_is_unhealthy() -> None:
    assert codes(cnmon(mode="Prohibited")) == [SignCode.COMPUTE_OFF]


def test_a_virtual_function_is_a_part_of_its_card() -> None:
    assert (cnmon(vf="1").parent, cnmon(vf="1").partition) == ("0", "vf1")


# -- lscpu -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", ["0-99999999999", "9-3", "a-b", "0-3,", "0--3"])
def test_a_list_of_cpus_that_can_not_be_one_leaves_the_answer_incomplete(listed: str) -> None:
    entries = [{"field": "CPU(s):", "data": "4"}, {"field": "On-line CPU(s) list:", "data": listed}]
    (reading,) = parse("lscpu", None, json.dumps({"lscpu": entries}) + "\n").readings
    assert (reading.complete, reading.other) == (False, {})
