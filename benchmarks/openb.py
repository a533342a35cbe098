"""One heterogeneous production cluster and nine lists of tasks for it, from `data/`.

Arrivals after the FGD paper (USENIX ATC '23): the list shuffled, then random draws from it, until the GPU
asked for is 130 % of what there is. Quantities in milli-cores, MiB and milli-GPUs.
"""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
LISTS = (
    "default", "multigpu20", "multigpu50", "gpushare40", "gpushare100", "gpuspec10", "gpuspec33", "cpu050",
    "cpu250",
)  # fmt: skip
WHOLE = 1000
#: Arrivals in thousandths of the GPUs there are.
FULL, END = 1000, 1300


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with GPUs of one model."""

    model: str
    gpus: int
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class Task:
    """What a task asks for: some whole GPUs, a part of one, or none; `models` empty: any."""

    cpu: int
    memory: int
    gpus: int
    milli: int  # of each GPU
    models: tuple[str, ...] = ()

    @property
    def gpu(self) -> int:
        """Milli-GPUs in all."""
        return self.gpus * self.milli


def _rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def nodes() -> list[Node]:
    """The 1,213 nodes with 6,212 GPUs."""
    return [
        Node(row["model"], int(row["gpus"]), int(row["cpu_milli"]), int(row["memory_mib"]))
        for row in _rows("openb_nodes.csv.gz")
        for _ in range(int(row["count"]))
    ]


def tasks(name: str) -> dict[Task, int]:
    """How often each task occurs in a list."""
    return {
        Task(
            int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpus"]), int(row["gpu_milli"]),
            tuple(row["models"].split("|")) if row["models"] else (),
        ): int(row["count"])
        for row in _rows("openb_tasks.csv.gz")
        if row["list"] == name
    }  # fmt: skip


def published() -> dict[str, tuple[float, float]]:
    """By list, what FGD's authors report at 100 and at 130 %."""
    with (DATA / "openb_published.csv").open(encoding="utf-8") as file:
        return {
            row["list"]: (float(row["at_100_percent"]), float(row["at_130_percent"]))
            for row in csv.DictReader(file)
        }


def arrivals(mix: dict[Task, int], capacity: int, seed: int) -> list[Task]:
    """Tasks until they ask for 130 % of the capacity (milli-GPUs)."""
    drawn = random.Random(seed)
    every = [task for task, count in mix.items() for _ in range(count)]
    drawn.shuffle(every)
    asked, stream = 0, []
    while asked * 1000 < END * capacity:
        task = every[len(stream)] if len(stream) < len(every) else drawn.choice(every)
        stream.append(task)
        asked += task.gpu
    return stream


def shuffled(machines: list[Node], seed: int) -> list[Node]:
    """The nodes in the random but fixed order by which ties are broken."""
    order = list(machines)
    random.Random(seed).shuffle(order)
    return order


def handed_out(stream: list[Task], placed: list[bool], capacity: int) -> tuple[float, float]:
    """Per cent of the GPUs handed out when arrivals reach 100 and 130 % of them."""
    asked = given = 0
    at_full: int | None = None
    for task, is_placed in zip(stream, placed, strict=True):
        asked += task.gpu
        given += task.gpu if is_placed else 0
        if at_full is None and asked * 1000 >= FULL * capacity:
            at_full = given
    return 100 * (at_full or given) / capacity, 100 * given / capacity
