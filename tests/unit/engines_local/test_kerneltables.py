"""The kernel's tables, on text written by hand after proc(5)."""

from __future__ import annotations

import os

import pytest

from steelyard.engines.local import kerneltables
from steelyard.engines.local.leftovers import is_its, is_its_memory

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0
   1: 0100007F:4E20 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000 20 4
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0000 100 0
"""
TCP6 = (
    "  sl  local_address  remote_address  st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"
    "   0: 00000000000000000000000001000000:4E21 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000 0 0 99 1\n"
)
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 31 /data/work/at_1/mb_1/a socket
0000000000000000: 00000003 00000000 00000000 0001 03 32
0000000000000000: 00000002 00000000 00010000 0001 01 33 @abstract
"""
SHM = """\
       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          7   600                  4096   101   102      0     0     0     0     0          0          0 1800000000                  4096                     0
         0          8  1600                  8192   103   103      2     0     0     0     0          0          0 1800000001                  8192                     0
"""  # noqa: E501
SEM = """\
       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
 305419896          3   666          5     0     0  1000  1000          0 1800000002
"""
MSG = """\
       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime
         0          4   600          12          1   104     0     0     0     0     0 1800000003          0 1800000000
"""  # noqa: E501
MOUNTS = """\
21 1 0:20 / / rw,relatime - overlay overlay rw
40 21 0:31 / /data/work/at_1/mb_1/tmp/mnt rw - tmpfs none rw
41 40 0:32 / /data/work/at_1/mb_1/tmp/mnt/inner rw - tmpfs none rw
42 21 8:1 /srv /data/work/at_1/mb_1/with\\040space rw shared:3 master:1 - ext4 /dev/sda1 rw
43 21 0:33 / /data/work/at_10 rw - tmpfs none rw
"""


@pytest.mark.requirement("G2")
def test_only_sockets_that_listen_hold_a_port() -> None:
    assert kerneltables.listeners(TCP) == [(20000, 4711), (22, 12)]


def test_a_listener_on_ipv6_counts() -> None:
    assert kerneltables.listeners(TCP6) == [(20001, 99)]


def test_sockets_with_a_name_in_the_file_system_are_found_with_their_whole_name() -> None:
    assert kerneltables.named_sockets(UNIX) == [("/data/work/at_1/mb_1/a socket", 31)]


@pytest.mark.requirement("G2")
def test_shared_memory_names_who_made_it_and_how_many_are_attached() -> None:
    first, second = kerneltables.objects("shm", SHM)
    assert (first.id, first.size, first.attached, first.maker, first.removed) == (7, 4096, 0, 101, False)
    assert (second.attached, second.removed) == (2, True)


def test_semaphores_and_queues_are_read_by_their_columns() -> None:
    (semaphores,) = kerneltables.objects("sem", SEM)
    assert (semaphores.id, semaphores.size, semaphores.user, semaphores.maker) == (3, 5, 1000, None)
    (queue,) = kerneltables.objects("msg", MSG)
    assert (queue.id, queue.size, queue.maker) == (4, 12, None)


@pytest.mark.parametrize("text", ["", "header only\n", "a b c\n1 2\n"])
def test_a_table_without_rows_or_of_another_kernel_has_none(text: str) -> None:
    assert kerneltables.objects("shm", text) == []
    assert kerneltables.listeners(text) == []
    assert kerneltables.named_sockets(text) == []


def test_mounts_below_a_folder_come_deepest_first_and_no_others() -> None:
    points = kerneltables.mount_points(MOUNTS)
    assert kerneltables.mounts_below("/data/work/at_1", points) == [
        "/data/work/at_1/mb_1/tmp/mnt/inner",
        "/data/work/at_1/mb_1/tmp/mnt",
        "/data/work/at_1/mb_1/with space",
    ]


def test_an_object_is_a_members_only_by_its_processes_and_only_since_it_started() -> None:
    (one, _) = kerneltables.objects("shm", SHM)
    assert is_its(one, frozenset({101}), 1_800_000_000)
    assert not is_its(one, frozenset({101}), 1_800_000_001)
    assert not is_its(one, frozenset({9}), 0)


def status(**changed: int) -> os.stat_result:
    """A file of this user, changed at 1,800,000,000 s."""
    return os.stat_result((0o600, 0, 0, 1, changed.get("user", os.geteuid()), 0, 5, 0, 0, 1_800_000_000))


@pytest.mark.parametrize(
    ("name", "its"),
    [("psm_4711_1", True), ("sem.mb_1", True), ("at_1-cache", True), ("psm_47110", False), ("other", False)],
)
def test_a_file_of_shared_memory_is_a_members_by_the_number_or_the_id_in_its_name(
    name: str, its: bool
) -> None:
    ids, pids = ("at_1", "mb_1"), frozenset({4711})
    assert is_its_memory(f"/dev/shm/{name}", status(), pids, ids, 0) is its
    assert is_its_memory(f"/dev/shm/{name}", status(), pids, ids, 1_800_000_001) is False
    assert is_its_memory(f"/dev/shm/{name}", status(user=65_533), pids, ids, 0) is False
