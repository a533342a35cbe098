"""What the samples do not show of further vendors' tools: rows and words of other releases."""

from __future__ import annotations

import json

import pytest

from steelyard.devices.parsers import parse
from steelyard.devices.reading import ProblemCode, Reading
from steelyard.model.health import DeviceHolder, Health, SignCode
from tests.support.device_samples import SAMPLES
from tests.support.device_texts import BOARDS, MT, MT_BUSY, OLDEST, PERSISTENCE, XPU


def one(tool: str, text: str) -> Reading:
    (reading,) = parse(tool, None, text).readings
    return reading


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


# -- mx-smi ------------------------------------------------------------------------------------------------

def test_an_older_table_of_metax_has_no_limit_of_power() -> None:
    found = one("mx-smi", OLDEST)
    assert (found.model, found.power, found.power_limit, found.temperature) == ("MXC500", 71_000, None, 51)


def test_a_table_of_metax_with_persistence_and_performance_is_read_by_its_heading() -> None:
    found = one("mx-smi", PERSISTENCE)
    assert (found.index, found.model, found.pci) == (3, "MetaX C500", "0000:38:00.0")
    assert (found.power, found.power_limit, found.utilisation) == (97_000, None, 7)
    assert found.mig is None


def test_a_board_of_metax_is_not_the_number_of_its_card() -> None:
    found = one("mx-smi", BOARDS)
    assert (found.index, found.module, found.mig) == (7, 6, True)


def test_processes_below_the_table_of_metax_hold_their_cards() -> None:
    parsed = parse("mx-smi", None, PERSISTENCE)
    assert parsed.processes
    assert parsed.readings[0].holders == (DeviceHolder(2477, "python x.py", 128),)


def test_no_process_is_an_answer_and_no_list_is_none() -> None:
    nothing = PERSISTENCE.replace("3       2477        python x.py        128 ", "no process found")
    assert one("mx-smi", nothing).holders == ()
    assert one("mx-smi", BOARDS).holders is None


@pytest.mark.parametrize("lost", ["+---------------------------------------------------------+\n", " 128 "])
def test_a_list_of_processes_that_is_not_whole_tells_of_none(lost: str) -> None:
    head, _, tail = PERSISTENCE.rpartition(lost)
    parsed = parse("mx-smi", None, head + tail)
    assert not parsed.processes
    assert parsed.readings[0].holders is None
    assert parsed.readings[0].complete


def test_a_table_with_a_heading_that_is_not_known_is_not_read_by_position() -> None:
    parsed = parse("mx-smi", None, OLDEST.replace("Memory-Usage", "Memory-Free "))
    assert parsed.readings == ()
    assert [problem.code for problem in parsed.problems] == [ProblemCode.UNRECOGNISED]


# -- mthreads-gmi ------------------------------------------------------------------------------------------

def test_a_newer_table_of_moore_threads_has_performance_states_and_words_for_ecc() -> None:
    parsed = parse("mthreads-gmi", None, MT)
    assert (parsed.driver, parsed.tool_version, parsed.problems) == ("5.1.0-server", "2.4.1", ())
    assert [(one.index, one.memory, one.temperature) for one in parsed.readings] == [
        (0, 81920, 48),
        (1, 32768, 57),
    ]


def test_the_parent_of_parts_says_that_it_is_split() -> None:
    assert [one.mig for one in parse("mthreads-gmi", None, MT).readings] == [None, True]


def test_processes_below_the_table_of_moore_threads_hold_their_cards() -> None:
    parsed = parse("mthreads-gmi", None, MT_BUSY)
    assert [one.holders for one in parsed.readings] == [
        (DeviceHolder(1123, "/usr/lib/xorg/Xorg", 662),),
        (DeviceHolder(4242, "python train.py", 30000),),
    ]
    assert [one.holders for one in parse("mthreads-gmi", None, MT).readings] == [None, None]


def test_a_key_of_moore_threads_with_a_space_at_its_end_is_the_key() -> None:
    card = json.loads(sample("mthreads-gmi_q_json_ok.json"))
    card["GPU"][0]["Power Readings"] = {"Power Draw": "7.50W"}
    assert one("mthreads-gmi", json.dumps(card) + "\n").power == 7_500


# -- ixsmi -------------------------------------------------------------------------------------------------


def test_the_query_of_the_probe_has_uuid_and_driver() -> None:
    uuid = "GPU-aaaa0000-1111-2222-3333-444455556666"
    found = one("ixsmi", f"0, {uuid}, Iluvatar BI-V150, 32768 MiB, 64 MiB, 3 %, 40 C, 4.3.8\n")
    assert (found.layout, found.uuid, found.driver) == ("query-uuid", uuid, "4.3.8")


# -- xpu-smi -----------------------------------------------------------------------------------------------


def test_kunlunxins_list_without_processes_says_that_there_is_none() -> None:
    text = sample("xpu-smi_kunlunxin_q_ok.txt")
    assert one("xpu-smi", text).holders is None
    assert one("xpu-smi", text + "    Processes                             : None\n").holders == ()
    assert one("xpu-smi", text + "    Processes\n        Process Id : 7\n").holders is None


def test_processes_below_the_table_of_kunlunxin_hold_their_cards() -> None:
    parsed = parse("xpu-smi", None, XPU)
    assert parsed.processes
    assert [one.holders for one in parsed.readings] == [(DeviceHolder(4242, "python train.py", 8999),), ()]


def test_aggregate_errors_of_kunlunxin_are_not_those_since_the_start() -> None:
    aggregate = "        Aggregate\n            DRAM Uncorrectable            : 9\n    Temperature\n"
    found = one("xpu-smi", sample("xpu-smi_kunlunxin_q_ok.txt").replace("    Temperature\n", aggregate))
    assert (found.complete, found.ecc_uncorrected, found.health) == (True, 0, Health.HEALTHY)


def test_each_of_two_vendors_reads_only_its_own_xpu_smi() -> None:
    theirs = parse("xpu-smi", None, sample("xpu-smi_kunlunxin_q_ok.txt"), family="intel-gpu")
    assert theirs.readings == ()
    assert [problem.sign for problem in theirs.problems] == [SignCode.TOOL_FOREIGN]


def test_intels_list_is_read_by_its_heading_for_its_properties_have_moved() -> None:
    text = (
        "Device ID,Device Name,SOC UUID,Serial Number,Driver Version,PCI BDF Address,OAM Socket ID,"
        "Memory Physical Size\n"
        '0,"Intel(R) Graphics [0x0bd5]","00000000-0000-4d00-0000-000856c08086","unknown","16929133",'
        '"0000:4d:00.0","","131072.00 MiB"\n'
    )
    found = one("xpu-smi", text)
    assert (found.memory, found.driver, found.serial, found.pci) == (131072, "16929133", None, "0000:4d:00.0")
    assert found.other == {}


def test_intels_list_without_a_size_is_whole_and_its_memory_unknown() -> None:
    text = sample("xpu-smi_intel_v1_dump.csv").replace("14248.00 MiB", "N/A")
    assert [(one.complete, one.memory) for one in parse("xpu-smi", None, text).readings] == [(True, None)] * 2


def test_of_many_samples_the_last_of_each_device_holds() -> None:
    head = "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W)\n"
    rows = "10:00:00.000,    0, 1.00, 10.00\n10:00:01.000,    0, 2.99, 20.50\n"
    rows += "10:00:01.000,    1, 3.00, 30.00\n"
    assert [(one.utilisation, one.power) for one in parse("xpu-smi", None, head + rows).readings] == [
        (2, 20_500),
        (3, 30_000),
    ]


def test_a_device_of_intel_that_supports_no_figure_is_not_unknown_for_that() -> None:
    head = "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W)\n"
    found = one("xpu-smi", head + "10:00:00.000,    0,     , N/A\n")
    assert (found.complete, found.health, found.power) == (True, Health.HEALTHY, None)


def test_a_box_of_another_vendors_mx_smi_is_not_recognised() -> None:
    text = "┌────┬──────┐\n│ ID │ Name │\n├────┼──────┤\n│ 0  │ S30  │\n└────┴──────┘\n"
    parsed = parse("mx-smi", None, text)
    assert parsed.readings == ()
    assert [problem.code for problem in parsed.problems] == [ProblemCode.UNRECOGNISED]


# -- hl-smi ------------------------------------------------------------------------------------------------


def test_what_is_not_confirmed_makes_a_gaudi_degraded_and_says_so() -> None:
    text = sample("hl-smi_L_excerpt.txt").replace(": Operational", ": Malfunction")
    found = one("hl-smi", text.replace(": No\n", ": Yes\n"))
    assert found.health is Health.DEGRADED
    assert [sign.code for sign in found.signs] == [SignCode.VENDOR_WARNING, SignCode.ROWS_PENDING]
    assert all(sign.params["unconfirmed"] == 1 for sign in found.signs)


def test_a_supply_that_tells_no_power_leaves_the_cards_unknown() -> None:
    assert one("hl-smi", sample("hl-smi_L_excerpt.txt").replace(": 31 W", ": N/A")).power is None


# -- neuron ------------------------------------------------------------------------------------------------


def test_all_errors_of_a_neuron_device_stand_once_with_its_last_line() -> None:
    lines = [f"[1.0{n}] neuron: NEURON_HW_ERR={kind} nd-id=5\n" for n, kind in enumerate(["DMA_ERROR"] * 3)]
    found = one("kernel-log", "".join([*lines, "[2.0] neuron: NEURON_HW_ERR=NEW_KIND nd-id=5\n"]))
    assert [(sign.detail, sign.health) for sign in found.signs] == [
        ("DMA_ERROR", Health.UNHEALTHY),
        ("NEW_KIND", Health.DEGRADED),
    ]
    assert found.line.startswith("[2.0]")


def test_an_error_that_names_no_device_is_told_of_and_blamed_on_none() -> None:
    parsed = parse("kernel-log", None, "[1.0] neuron: NEURON_HW_ERR=DMA_ERROR hostname=node-a\n")
    assert parsed.readings == ()
    assert [problem.sign for problem in parsed.problems] == [SignCode.KERNEL_FAULT]


def test_processes_of_neuron_that_are_not_listed_are_unknown() -> None:
    device = {"neuron_device": 0, "bdf": "00:1f.0", "nc_count": 2, "memory_size": 34359738368}
    assert one("neuron-ls", json.dumps([device]) + "\n").holders is None


# -- efsmi, brsmi, ppu-smi, TPU ----------------------------------------------------------------------------


def test_a_whole_answer_of_efsmi_has_sections_that_are_not_read_and_lines_around_it() -> None:
    extra = "    VPU Info\n        Encoder Usage           : 0 %\n-----------------\n"
    text = "------ Enflame System Management Interface ------\n" + sample("efsmi_q_new_ok.txt") + extra
    parsed = parse("efsmi", None, text)
    assert (parsed.readings[0].complete, parsed.problems) == (True, ())


def test_an_answer_of_efsmi_without_its_health_sections_is_not_whole() -> None:
    text = sample("efsmi_q_new_ok.txt").partition("    RMA Info\n")[0]
    found = one("efsmi", text)
    assert (found.complete, found.index, found.memory) == (False, 0, None)


def test_bare_figures_of_brsmi_are_those_of_their_columns() -> None:
    shifted = "0, Biren 106M, GPU-99999999-aaaa-4bbb-8ccc-000000000000, 12, 1024, 32512, 40\n"
    parsed = parse("brsmi", "query", sample("brsmi_query.csv") + shifted)
    assert [one.complete for one in parsed.readings] == [True, True, False]


def test_the_second_query_of_ppu_smi_has_memory_and_limit() -> None:
    found = one("ppu-smi", "00000000:08:00.0, 98304 MiB, 400.00 W, MADEUPPPU0001\n")
    assert (found.layout, found.memory, found.power_limit) == ("query-limits", 98304, 400_000)


def test_what_google_has_on_the_bus_is_a_chip_by_its_device_number_only() -> None:
    lines = "00:04.0 1200: 1ae0:0063 (rev 01)\n00:05.0 1200: 1ae0:abcd\n00:06.0 0200: 1ae0:0042 (rev 12)\n"
    parsed = parse("lspci", None, lines)
    assert [one.model for one in parsed.readings] == ["TPU v5e"]
    assert [problem.code for problem in parsed.problems] == [ProblemCode.UNRECOGNISED]
