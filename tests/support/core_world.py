"""A small site that lives: work is submitted, placed, evicted, ends; quotas and nodes change.

`World` keeps its own book of who waits, runs and is held, and makes each snapshot out of it from nothing.
What `decide` answers is checked against the book (`core_checks`), then booked. Events take plain integers,
so that a state machine and a seeded run can drive the same world.

Long because a world is one class: whatever happens to it reads and writes the same book.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Limit, Policy, TreeNode
from steelyard.model.resources import ACCELERATORS, DeviceClass, ShareKind
from steelyard.model.workloads import MemberPlan, MemberRequest, Shape, Topology
from steelyard.scheduling import (
    Charge,
    ClusterView,
    Decisions,
    DropCause,
    Eviction,
    FlavorView,
    FreeDevices,
    HoldView,
    NodeView,
    PartDevice,
    PendingItem,
    QuotaTree,
    RunningView,
    ShapeGroup,
    ShapeReasons,
    Slot,
    Snapshot,
    decide,
    with_unbounded_root,
)
from steelyard.scheduling.bundles import imagined_ids, may_grow
from steelyard.scheduling.fleet import as_fleet
from steelyard.scheduling.prices import DEVICE, Prices
from steelyard.scheduling.run_times import Learned, RunTimes
from steelyard.scheduling.runs import as_runs
from steelyard.scheduling.snapshot import least_of, limited
from tests.support.core_books import NaiveTree, by_place, own_charges
from tests.support.core_checks import check_cycle, digest, shuffled
from tests.support.core_idle import check_nothing_idle

GPU, NPU, CPU, MEMORY = DeviceClass.GPU, DeviceClass.NPU, DeviceClass.CPU, DeviceClass.MEMORY
SECOND = 1_000_000
QUEUES = {"q1": "left", "q2": "left", "q3": "right", "q4": "right"}
RACK = "rack"  # level of the nodes' topology
PROJECTS = ("p1", "p2")
FLAVORS = {
    "a100": (GPU, "c1"), "h100": (GPU, "c2"), "npu910": (NPU, "c1"),
    "cpu-c1": (CPU, "c1"), "cpu-c2": (CPU, "c2"), "memory-c1": (MEMORY, "c1"), "memory-c2": (MEMORY, "c2"),
}  # fmt: skip
#: What sizes of a fraction earn, where nodes are chosen by their value.
PRICES = Prices(1, ((250, 250_000, 1_000), (300, 333_333, 1_000), (500, 500_000, 1_000)), ((1, 1_000),))
#: Of shapes that run on both models, on one of them slower.
SPEEDS = (("a100", 400), ("h100", 1000))


@dataclass(frozen=True)
class Machine:
    """A node as it was built: its accelerators are numbered from number × 100."""

    number: int
    cluster: str
    flavor: str
    devices: int
    cpu: int = 16_000
    memory: int = 65_536

    @property
    def sizes(self) -> dict[int, tuple[str, int]]:
        """Device → (flavor, how much of it there is)."""
        base = self.number * 100
        found = {base + index: (self.flavor, 1000) for index in range(self.devices)}
        found[base + 90] = (f"cpu-{self.cluster}", self.cpu)
        found[base + 91] = (f"memory-{self.cluster}", self.memory)
        return found


MACHINES = (
    Machine(1, "c1", "a100", 4), Machine(2, "c1", "a100", 4), Machine(3, "c1", "a100", 2),
    Machine(4, "c1", "npu910", 4), Machine(5, "c2", "h100", 2), Machine(6, "c2", "h100", 4),
)  # fmt: skip


@dataclass
class Job:
    """One workload's present attempt."""

    workload_id: int
    attempt_id: int
    shape: Shape
    submitted: int
    not_before: int = 0
    phase: str = "queued"  # queued, held, running, stopping, gone
    why: str | None = None  # it stops
    members: tuple[MemberPlan, ...] = ()
    charges: tuple[Charge, ...] = ()
    placed_at: int = 0
    hold: HoldView | None = None
    ids: tuple[int, ...] = ()  # of its members, where they may leave
    shrunk_at: int | None = None

    @property
    def item(self) -> PendingItem:
        """As it waits."""
        return PendingItem(self.workload_id, self.attempt_id, self.submitted, self.submitted, self.not_before)


@dataclass
class World:
    """See the module. `now` only moves by `advance` and by each cycle's own 10 ms."""

    policy: Policy
    max_heads: int = 512
    seed: int = 0
    elastic: bool = False  # most of what comes runs with fewer members, too
    now: int = 5_000 * SECOND
    jobs: dict[int, Job] = field(default_factory=dict)  # by attempt id, those that are not gone
    down: set[int] = field(default_factory=set)  # nodes
    bad: set[int] = field(default_factory=set)  # devices
    silent: set[str] = field(default_factory=set)  # clusters
    reasons: dict[str, ShapeReasons] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    evictions: list[tuple[int, int]] = field(default_factory=list)  # (preemptor, victim), workloads
    counts: Counter[str] = field(default_factory=Counter)
    last: Decisions | None = None
    prices: Prices = PRICES
    run_times: RunTimes = field(default_factory=RunTimes)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.fleet, self.runs = as_fleet({}), as_runs({})
        self.shapes = make_shapes(self.random, elastic=self.elastic)
        self.queue_nodes = {
            "all": TreeNode(QUEUE_TREE, "all", "cohort", None),
            "left": TreeNode(QUEUE_TREE, "left", "cohort", "all"),
            "right": TreeNode(QUEUE_TREE, "right", "cohort", "all"),
            **{name: TreeNode(QUEUE_TREE, name, "queue", parent) for name, parent in QUEUES.items()},
        }
        self.org_nodes = {"team": TreeNode(ORG_TREE, "team", "team", None)}
        for name in PROJECTS:
            self.org_nodes[name] = TreeNode(ORG_TREE, name, "project", "team")
            self.org_nodes[f"ns-{name}"] = TreeNode(ORG_TREE, f"ns-{name}", "namespace", name)
        self.queue_limits: dict[tuple[str, str], Limit] = {}
        self.org_limits: dict[tuple[str, str], Limit] = {}
        for name in QUEUES:
            self.queue_limits[name, "gpu"] = Limit(QUEUE_TREE, name, "gpu", 3000)
        self._next, self._members = 1, count(1 << 60)

    def teach(self) -> None:
        """From now on one model has a price, and speeds of a template were learned from finished runs."""
        self.prices = replace(PRICES, version=2, models=(("a100", DEVICE),))
        self.shapes = [replace(one, template=None if one.speeds else "tune") for one in self.shapes]
        even, odd = (1_000,) * 5, (4_000,) * 5
        for size in range(250, 8_001, 50):
            fast, slow = (even, odd) if size % 100 else (odd, even)
            models = {"a100": Learned(5, fast), "h100": Learned(5, slow)}
            self.run_times.by_model[f"template/tune/{size}"] = models  # type: ignore[index]

    # --- events ------------------------------------------------------------------------------------
    def submit(self, shape: int, count: int = 1) -> None:
        """So many of a shape."""
        for _ in range(count):
            number, self._next = self._next, self._next + 1
            self.jobs[number] = Job(number, number, self.shapes[shape % len(self.shapes)], self.now + number)

    def end(self, which: int, why: str) -> None:
        """Something that runs (or stops) gives back what it has; one that failed waits again, later."""
        job = self._pick(which, "running", "stopping")
        if job is not None:
            self._gone(job, job.why if job.phase == "stopping" else why)

    def cancel(self, which: int) -> None:
        """Something that waits leaves, or something that runs is asked to stop."""
        job = self._pick(which, "queued", "held", "running")
        if job is None:
            return
        if job.phase == "queued":
            del self.jobs[job.attempt_id]
        elif job.phase == "held" and job.hold is not None:
            job.hold = replace(job.hold, alive=False)
            job.phase = "gone"
        else:
            job.phase, job.why = "stopping", "cancelled"

    def change_quota(self, which: int, amounts: tuple[int, int, int]) -> None:
        """A limit is set or taken away: (nominal, borrowing, lending) in thousands; 12 and more: none."""
        nominal, borrowing, lending = amounts
        subjects = ("gpu", "npu", "flavor/a100", "cpu", "flavor/h100")
        names = [*self.queue_nodes, *self.org_nodes]
        name, subject = names[which % len(names)], subjects[which // len(names) % len(subjects)]
        bound = None if borrowing >= 12 else borrowing * 1000
        if nominal == 0:
            self.queue_limits.pop((name, subject), None)
            self.org_limits.pop((name, subject), None)
        elif name in self.queue_nodes:
            kept = None if lending >= 12 else lending * 1000
            self.queue_limits[name, subject] = Limit(QUEUE_TREE, name, subject, nominal * 1000, bound, kept)
        else:
            self.org_limits[name, subject] = Limit(ORG_TREE, name, subject, 0, bound)

    def stop_queue(self, which: int) -> None:
        """A queue lets nothing start; where one does already, it goes on."""
        stopped = [name for name in QUEUES if self.queue_nodes[name].stopped]
        name = stopped[0] if stopped else list(QUEUES)[which % len(QUEUES)]
        self.queue_nodes[name] = replace(self.queue_nodes[name], stopped=not stopped)

    def lose(self, which: int) -> None:
        """A node goes; the third time all come back. What ran there ends, and is charged until then."""
        number = MACHINES[which % len(MACHINES)].number
        if len(self.down) == 2:
            self.down.clear()
            return
        self.down.add(number)
        for job in self.jobs.values():
            if job.phase == "running" and any(member.node_id == number for member in job.members):
                job.phase, job.why = "stopping", "lost"

    def spoil(self, which: int) -> None:
        """A device turns bad; the fourth time all are good again."""
        devices = [m.number * 100 + index for m in MACHINES for index in range(m.devices)]
        self.bad = {*self.bad, devices[which % len(devices)]} if len(self.bad) < 3 else set()

    def silence(self, which: int) -> None:
        """A cluster no longer answers; the next time it does again."""
        self.silent = set() if self.silent else {("c1", "c2")[which % 2]}

    def advance(self, micros: int) -> None:
        """Time goes by."""
        self.now += micros

    def _pick(self, which: int, *phases: str) -> Job | None:
        found = [job for job in self.jobs.values() if job.phase in phases]
        return found[which % len(found)] if found else None

    def _gone(self, job: Job, why: str | None) -> None:
        del self.jobs[job.attempt_id]
        if why in ("failed", "preempted", "lost"):
            number, self._next = self._next, self._next + 1
            later = self.now + 5 * SECOND if why == "failed" else 0
            self.jobs[number] = Job(job.workload_id, number, job.shape, job.submitted, later)

    # --- one cycle -----------------------------------------------------------------------------------
    def cycle(self) -> Decisions:
        """Decides on the present state, checks the answer in every way known, and books it."""
        self.now += 10_000
        before = self.snapshot()
        decisions = decide(before, self.policy, self.now)
        if self.random.random() < 0.2:
            again = decide(shuffled(before, self.random), self.policy, self.now)
            assert digest(again) == digest(decisions), "another order of the input, another answer"
        self.last = decisions
        lived = self.lived(before)
        followed = decide(lived, self.policy, self.now)
        assert digest(followed) == digest(decisions), "it matters whether changes were followed"
        after = lived.apply(decisions)
        self._book(decisions)
        check_cycle(self, before, decisions, after)
        return decisions

    def _book(self, decisions: Decisions) -> None:
        for dropped in decisions.dropped_holds:
            job = self.jobs[dropped.attempt_id]
            job.hold, job.charges, job.members = None, (), ()
            job.phase = "queued"
            if dropped.cause is DropCause.VANISHED:
                del self.jobs[dropped.attempt_id]
        for placed in decisions.placements:
            job = self.jobs[placed.attempt_id]
            assert job.phase == ("held" if placed.from_hold else "queued")
            job.phase, job.hold, job.placed_at = "running", None, self.now
            job.members, job.charges = placed.members, placed.charges
            job.ids = imagined_ids(job.shape, job.attempt_id, job.members)
        for growth in decisions.growths:
            job = self.jobs[growth.attempt_id]
            assert job.phase == "running"
            rests = self.policy.growth_window
            assert job.shrunk_at is None or self.now - job.shrunk_at >= rests, "it grew too soon"
            self.counts["regrown"] += job.shrunk_at is not None
            # those that are imagined are unlike each other only until a member leaves
            ids = tuple(next(self._members) for _ in growth.members)
            job.ids = (*(job.ids or (0,) * len(job.members)), *ids)
            job.members = (*job.members, *growth.members)
            more = Counter({(c.tree, c.node, c.subject): c.quantity for c in growth.charges})
            job.charges = tuple(
                c.with_quantity(c.quantity + more[c.tree, c.node, c.subject]) for c in job.charges
            )
        for hold in decisions.holds:
            job = self.jobs[hold.attempt_id]
            assert job.phase == "queued"
            job.phase, job.hold, job.charges = "held", hold, hold.charges
        for eviction in decisions.evictions:
            job = self.jobs[eviction.attempt_id]
            assert job.phase == "running"
            if eviction.members:
                self._shrink(job, eviction)
            else:
                job.phase, job.why = "stopping", "preempted"
            if eviction.preemptor_workload_id is not None:
                self.evictions.append((eviction.preemptor_workload_id, eviction.workload_id))
        self.reasons.update(decisions.reasons)
        self.looked.update(dict.fromkeys(decisions.looked, decisions.now))
        self.counts.update(placed=len(decisions.placements), evicted=len(decisions.evictions))
        self.counts.update(grown=len(decisions.growths))
        self.counts.update(shrunk=sum(bool(eviction.members) for eviction in decisions.evictions))
        self.counts.update(held=len(decisions.holds), cycles=1)

    def _shrink(self, job: Job, eviction: Eviction) -> None:
        """Its members that leave stop by themselves, and are charged for what they have until they ended."""
        for gone in eviction.members:
            (member,) = (one for one in job.members if (one.role, one.index) == (gone.role, gone.index))
            charges = tuple(_charged_for(job, [member]))
            job.members = tuple(one for one in job.members if one is not member)
            self.jobs[gone.member_id] = Job(
                job.workload_id, gone.member_id, job.shape, job.submitted, phase="stopping", why="left",
                members=(member,), charges=charges, placed_at=job.placed_at,
            )  # fmt: skip
        job.shrunk_at = self.now
        left = {gone.member_id for gone in eviction.members}
        job.ids = tuple(number for number in job.ids if number not in left)
        job.charges = tuple(_charged_for(job, job.members))

    def freeze(self, most: int = 80) -> None:
        """Nothing new comes and nothing ends by itself: what is asked to stop does, until all is quiet."""
        seen = len(self.evictions)
        for _ in range(most):
            for job in [job for job in self.jobs.values() if job.phase == "stopping"]:
                self._gone(job, job.why)
            self.advance(2 * SECOND)
            decisions = self.cycle()
            if not decisions.changes_state and not self.in_phase("stopping"):
                break
        else:
            raise AssertionError(f"no rest after {most} cycles of a frozen load")
        if not decisions.reservations:  # else some wait that fit, for they would delay who has a place
            check_nothing_idle(self.snapshot(), self.policy, self.now)
        pairs = set(self.evictions[seen:])
        assert not [pair for pair in pairs if pair[::-1] in pairs], "two evict each other"

    def lived(self, fresh: Snapshot) -> Snapshot:
        """The same snapshot with the mappings that follow changes from cycle to cycle."""
        views = {key: view for key, view in fresh.nodes.items() if self.fleet.get(key) != view}
        self.fleet = self.fleet.with_(views)
        running = {key: view for key, view in fresh.running.items() if self.runs.get(key) != view}
        self.runs = self.runs.with_(running, self.runs.keys() - fresh.running.keys())
        return replace(fresh, nodes=self.fleet, running=self.runs)

    def in_phase(self, *phases: str) -> list[Job]:
        """The jobs in these phases."""
        return [job for job in self.jobs.values() if job.phase in phases]

    # --- the snapshot, from nothing ---------------------------------------------------------------------
    @property
    def trees(self) -> dict[str, QuotaTree]:
        """Both trees with their present limits."""
        return {
            QUEUE_TREE: QuotaTree(self.queue_nodes, self.queue_limits),
            ORG_TREE: with_unbounded_root(ORG_TREE, self.org_nodes, self.org_limits, "installation"),
        }

    def charged(self) -> Iterator[Charge]:
        """Everything that is charged: what runs, stops, and is held."""
        for job in self.jobs.values():
            yield from job.charges

    def snapshot(self) -> Snapshot:
        """What `decide` is given."""
        trees = self.trees
        usage = {
            name: NaiveTree(tree).all_usage(own_charges(name, self.charged())) for name, tree in trees.items()
        }
        answering = {
            name: ClusterView(name, self.now, name not in self.silent) for name in ("c1", "c2")
        }
        held = by_place(m for job in self.in_phase("running", "stopping") for m in job.members)
        leaves = {job.workload_id for job in self.jobs.values() if job.why == "left"}
        running = {
            job.attempt_id: running_view(job, job.workload_id in leaves)
            for job in self.in_phase("running", "stopping")
        }
        return Snapshot(
            nodes={machine.number: self._view(machine, held) for machine in MACHINES},
            flavors={name: FlavorView(name, *of, model=name) for name, of in FLAVORS.items()},
            clusters=answering,
            trees=trees,
            usage=usage,
            pending=tuple(self._groups()),
            running=running,
            growing=frozenset(key for key, view in running.items() if view.grows is not None),
            holds={job.attempt_id: job.hold for job in self.jobs.values() if job.hold is not None},
            prices={GPU: self.prices},
            last_looked=dict(self.looked),
            run_times=self.run_times,
        )

    def _groups(self) -> Iterator[ShapeGroup]:
        by_shape: dict[str, list[Job]] = {}
        for job in self.in_phase("queued"):
            by_shape.setdefault(job.shape.key, []).append(job)
        for jobs in by_shape.values():
            items = sorted((job.item for job in jobs), key=lambda item: (item.submitted, item.workload_id))
            yield ShapeGroup(jobs[0].shape, tuple(items[: self.max_heads]), len(items))

    def _view(self, machine: Machine, held: Counter[tuple[int, int]]) -> NodeView:
        whole, partial, slots = [], [], []
        totals: dict[str, int] = {}
        for device, (flavor, size) in machine.sizes.items():
            totals[flavor] = totals.get(flavor, 0) + size
            free = size - held[machine.number, device]
            assert free >= 0, f"device {device} is over-committed"
            cls = FLAVORS[flavor][0]
            if cls not in ACCELERATORS:
                slots.append(Slot(device, flavor, cls, free))
            elif device not in self.bad and free == 1000:
                whole.append(device)
            elif device not in self.bad and free > 0:
                partial.append(PartDevice(device, free, ShareKind.TIME_SLICED))
        return NodeView(
            machine.number, f"n{machine.number}", machine.cluster, machine.number not in self.down,
            {RACK: f"r{machine.number % 2}"},
            {machine.flavor: FreeDevices(tuple(whole), tuple(partial))}, tuple(slots), totals,
            frozenset(device for device in machine.sizes if device in self.bad),
        )  # fmt: skip


def _charged_for(job: Job, members: Iterable[MemberPlan]) -> Iterator[Charge]:
    """What a job is charged for some of its members, counted anew."""
    of: Counter[str] = Counter()
    for member in members:
        for allocation in member.allocations:
            of[allocation.device_class.value] += allocation.quantity
            of[f"flavor/{allocation.flavor}"] += allocation.quantity
    for charge in job.charges:
        if of[charge.subject]:
            yield charge.with_quantity(of[charge.subject])


def running_view(job: Job, leaves: bool) -> RunningView:
    """A job that has its places; `leaves`: some of its members are on their way out."""
    shape = job.shape
    grows = job.phase == "running" and not leaves and may_grow(shape, job.members)
    return RunningView(
        job.attempt_id, job.workload_id, shape.key, shape.queue, shape.project, shape.priority, job.placed_at,
        job.members, job.charges, shape.preemptible, job.phase == "stopping",
        ends_by=limited(job.placed_at, shape.time_limit), least=() if job.why == "left" else least_of(shape),
        ids=job.ids if any(job.ids) else (),
        grows=shape if grows else None, shrunk_at=job.shrunk_at,
    )  # fmt: skip


def make_shapes(chance: random.Random, count: int = 20, elastic: bool = False) -> list[Shape]:
    """Unlike requests: whole devices, fractions, gangs, members that differ, two models, no device at all."""
    made = [_shape(f"s{number}", chance) for number in range(count)]
    return [_stretched(one, chance) if elastic else one for one in made]


def _stretched(shape: Shape, chance: random.Random) -> Shape:
    """Of each role up to five members, of which one or two are enough."""
    roles = tuple((name, count + chance.randrange(4), one) for name, count, one in shape.roles)
    least = tuple(min(count, chance.choice((1, 1, 2))) for _, count, _ in roles)
    grows = tuple(name for name, _, _ in roles if chance.random() < 0.7)
    return replace(shape, roles=roles, least=least, priority=chance.choice((0, 0, 0, 5, 10)), grows=grows)


def _shape(key: str, chance: random.Random) -> Shape:
    one = _request(chance, chance.choice((GPU, GPU, NPU)))
    roles: list[tuple[str, int, MemberRequest]] = [("main", 1, one)]
    form = chance.randrange(6)
    if form == 0:
        roles = [("main", chance.choice((2, 3)), _request(chance, GPU, whole=True))]
    elif form == 1:
        roles = [("main", 1, MemberRequest(((CPU, chance.choice((1000, 4000, 9000))),)))]
    elif form == 2:
        roles = [("head", 1, MemberRequest(((CPU, 1000),))), ("worker", 2, _request(chance, GPU, whole=True))]
    project = chance.choice(PROJECTS)
    least = tuple(1 if chance.random() < 0.3 else count for _, count, _ in roles)
    near = chance.choice((None, None, None, Topology(RACK), Topology(preferred=RACK)))
    return Shape(
        key, chance.choice(("q1", "q1", *QUEUES)), project, (f"ns-{project}", project, "team"),
        chance.choice((0, 0, 5, 10)), tuple(roles), chance.random() < 0.8, "training",
        time_limit=chance.choice((None, None, 2 * SECOND, 9 * SECOND)), least=least, topology=near,
        speeds=SPEEDS if key.endswith(("1", "4")) and roles[0][2].amount(GPU) else (),
    )  # fmt: skip


def _request(chance: random.Random, device_class: DeviceClass, whole: bool = False) -> MemberRequest:
    amount = chance.choice((1000, 1000, 2000, 4000) if whole else (250, 300, 500, 1000, 1000, 2000))
    amounts: Iterable[tuple[DeviceClass, int]] = [(CPU, 1000), (device_class, amount), (MEMORY, 1024)]
    flavors: tuple[str, ...] = ()
    if device_class is GPU:
        flavors = chance.choice(((), (), ("h100", "a100"), ("a100",), ("h100",)))
    return MemberRequest(tuple(sorted(amounts)), flavors)
