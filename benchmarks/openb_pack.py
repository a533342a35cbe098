"""Tasks of a production trace packed onto its 1,213 unlike nodes: how much of 6,212 GPUs is handed out.

The product's own core places them: one snapshot with all tasks waiting in the order of their arrival, and
`decide`, which takes them one at a time; nothing leaves, and what fits nowhere is lost. Nodes are chosen by
`NodeValue`, whose prices come from how often each task occurs in the list (never from what comes next). Ten
seeds and nine lists; `--quick`: two seeds of the default list, one of each other.

Beside it, in the same run and on the same arrivals, fragmentation gradient descent (USENIX ATC '23), checked
against what its authors published. Virtual time; `place_ms` is what a core was busy for, with everything that
`decide` does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fgd import Fgd
from benchmarks.openb import LISTS, WHOLE, Node, Task, arrivals, handed_out, nodes, published, shuffled, tasks
from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import (
    ClusterView,
    FlavorView,
    FreeDevices,
    NodeView,
    PendingItem,
    ShapeGroup,
    Slot,
    Snapshot,
    decide,
)
from steelyard.services.price_programme import Task as PriceTask
from steelyard.services.price_programme import prices_of

SEEDS = range(42, 52)
NOW = 1_800_000_000_000_000
PROFILE = "openb-pack"
POLICY = policy(PROFILE)
CLUSTER, CPU, MEMORY = "openb", "cores", "ram"


def flavors(machines: Sequence[Node]) -> dict[str, FlavorView]:
    """A flavor for each model, one for CPU and one for memory."""
    models = sorted({node.model for node in machines})
    found = {name: FlavorView(name, DeviceClass.GPU, CLUSTER, model=name) for name in models}
    found[CPU] = FlavorView(CPU, DeviceClass.CPU, CLUSTER)
    found[MEMORY] = FlavorView(MEMORY, DeviceClass.MEMORY, CLUSTER)
    return found


def view(number: int, node: Node) -> NodeView:
    """An idle node. Ties are broken by its id, so by its place in the shuffled order."""
    base = number * 100
    slots = (
        Slot(base + 90, CPU, DeviceClass.CPU, node.cpu),
        Slot(base + 91, MEMORY, DeviceClass.MEMORY, node.memory),
    )
    free = FreeDevices(tuple(range(base, base + node.gpus)))
    totals = {node.model: node.gpus * WHOLE, CPU: node.cpu, MEMORY: node.memory}
    return NodeView(number, f"n{number}", CLUSTER, True, {}, {node.model: free}, slots, totals)


def shape(number: int, task: Task) -> Shape:
    """Equal tasks are of one shape."""
    asked = {DeviceClass.GPU: task.gpu, DeviceClass.CPU: task.cpu, DeviceClass.MEMORY: task.memory}
    amounts = tuple(sorted((cls, amount) for cls, amount in asked.items() if amount))
    request = MemberRequest(amounts, models=task.models)
    return Shape(f"s{number:04}", "queue", "project", (), 0, (("main", 1, request),), False)


def snapshot(machines: Sequence[Node], mix: dict[Task, int], stream: Sequence[Task]) -> Snapshot:
    """All of it waiting, the first to arrive first."""
    heads: dict[Task, list[PendingItem]] = {}
    for number, task in enumerate(stream):
        heads.setdefault(task, []).append(PendingItem(number, number, NOW - len(stream) + number))
    numbers = {task: number for number, task in enumerate(mix)}
    groups = tuple(
        ShapeGroup(shape(numbers[task], task), tuple(items), len(items)) for task, items in heads.items()
    )
    asked = [PriceTask(task.gpu, task.cpu, count, frozenset(task.models)) for task, count in mix.items()]
    capacity: dict[str, int] = {}
    for machine in machines:
        capacity[machine.model] = capacity.get(machine.model, 0) + machine.gpus * WHOLE
    prices = prices_of(asked, capacity=capacity)
    assert prices is not None
    return Snapshot(
        nodes={number: view(number, node) for number, node in enumerate(machines)},
        flavors=flavors(machines),
        clusters={CLUSTER: ClusterView(CLUSTER, NOW)},
        pending=groups,
        prices={DeviceClass.GPU: prices},
        last_looked=dict.fromkeys((group.shape.key for group in groups), NOW),  # reasons are not the matter
    )


def ours(machines: Sequence[Node], mix: dict[Task, int], stream: Sequence[Task]) -> tuple[list[bool], float]:
    """Which tasks were placed, and the seconds of a core that `decide` took."""
    world = snapshot(machines, mix, stream)
    placed: set[int] = set()
    took = 0.0
    more = True
    while more:  # a cycle places at most so many
        begun = time.process_time()
        decisions = decide(world, POLICY, NOW)
        took += time.process_time() - begun
        placed.update(placement.attempt_id for placement in decisions.placements)
        more = len(decisions.placements) >= POLICY.max_placements
        world = world.apply(decisions) if more else world
    return [number in placed for number in range(len(stream))], took


def main() -> None:
    """Each list, ours beside FGD."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds, one of the other lists")
    quick = parser.parse_args().quick
    machines = nodes()
    capacity = sum(node.gpus for node in machines) * WHOLE
    seeds = {name: list(SEEDS)[: (2 if name == "default" else 1) if quick else None] for name in LISTS}
    bar, done = progress("seeds", sum(map(len, seeds.values()))), 0
    metrics: dict[str, float | None] = {}
    peers: dict[str, float] = {}
    took, decided = 0.0, 0
    print(f"{len(machines):,} nodes, {capacity // WHOLE:,} GPUs; {told(PROFILE)}")
    for name in LISTS:
        mix = tasks(name)
        own: list[tuple[float, float]] = []
        peer: list[tuple[float, float]] = []
        for seed in seeds[name]:
            stream, order = arrivals(mix, capacity, seed), shuffled(machines, seed)
            placed, seconds = ours(order, mix, stream)
            took, decided = took + seconds, decided + len(stream)
            own.append(handed_out(stream, placed, capacity))
            fgd = Fgd(order, mix)
            peer.append(handed_out(stream, [fgd.place(task) for task in stream], capacity))
            done += 1
            bar(done)
        at_full, at_end = published()[name]
        metrics[f"{name}_percent"] = mean(end for _, end in own)
        metrics[f"{name}_fgd_percent"] = mean(end for _, end in peer)
        peers |= {f"{name}_fgd_published_percent": at_end}
        print(
            f"{name:>12}: {mean(full for full, _ in own):6.2f} at 100 %,"
            f" {metrics[f'{name}_percent']:6.2f} at 130 %;"
            f" FGD {mean(full for full, _ in peer):6.2f}, {metrics[f'{name}_fgd_percent']:6.2f}"
            f" (published {at_full:6.2f}, {at_end:6.2f})"
        )
    metrics["place_ms"] = 1000 * took / decided
    emit("openb_pack", quick, metrics, peers)


if __name__ == "__main__":
    main()
