"""What an attempt is short of: quota of the queue tree, or devices of a class or flavor.

Only where it is short may another queue's work be stopped for it (see `reclaim`).
"""

from __future__ import annotations

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import matches
from steelyard.scheduling.context import Context
from steelyard.scheduling.placement import ShapePlan


def contended(context: Context, plan: ShapePlan) -> tuple[str, ...]:
    """The limited subjects of the queue tree for which an attempt is short, of quota or of devices.

    Empty where what is short is a limit of the organisation: no queue took that from another.
    """
    trees, ledger = context.snapshot.trees, context.ledger
    if any(not ledger.fits((ask,)) for ask in plan.class_asks if ask.tree != QUEUE_TREE):
        return ()
    tree, queue = trees[QUEUE_TREE], plan.shape.queue
    lead = plan.lead
    wanted = lead.count * lead.need.amount
    short = {
        ask.subject
        for ask in plan.class_asks
        if ask.tree == QUEUE_TREE and ask.quantity > ledger.available(QUEUE_TREE, queue, ask.subject)
    }
    for name in lead.flavors:
        subject = f"{FLAVOR_PREFIX}{name}"
        if subject in tree.subjects and wanted > ledger.available(QUEUE_TREE, queue, subject):
            short.add(subject)
    short |= _short_of_devices(context, plan)
    return tuple(sorted(subject for subject in short if subject in tree.subjects))


def _short_of_devices(context: Context, plan: ShapePlan) -> set[str]:
    """Classes and flavors of which too little is free in sum, or on any one node for a member."""
    lead, board = plan.lead, context.board
    amount, wanted = lead.need.amount, lead.count * lead.need.amount
    short: set[str] = set()
    tight = [name for name in lead.flavors if board.free(name) < wanted]
    scattered = [name for name in lead.flavors if name not in tight and not _is_hosted(context, plan, name)]
    if len(tight) + len(scattered) == len(lead.flavors):
        short.add(lead.need.primary.value)
    short.update(f"{FLAVOR_PREFIX}{name}" for name in (*tight, *scattered))
    for device_class, asked in plan.amounts.items():
        if device_class is lead.need.primary or not asked:
            continue
        free = sum(
            board.free(name)
            for name in sorted(context.usable)
            if context.snapshot.flavors[name].device_class is device_class
        )
        if free < asked:
            short.add(device_class.value)
    if not short and amount:  # a member's other classes are short where its devices are free
        short.update(cls.value for cls in plan.amounts if cls is not lead.need.primary)
    return short


def _is_hosted(context: Context, plan: ShapePlan, flavor: str) -> bool:
    """Whether single nodes have enough free of the flavor for every member of the lead role."""
    need, left, board = plan.lead.need, plan.lead.count, context.board
    room = board.room(flavor)
    if need.amount >= WHOLE_DEVICE and need.is_accelerated:
        hosts = room.whole * WHOLE_DEVICE // need.amount
    else:
        hosts = (room.most >= max(1, need.amount)).astype(int)
    if not need.labels:
        return int(hosts.sum()) >= left
    order = board.order(flavor)
    fitting = (int(at) for at in hosts.nonzero()[0])
    return sum(int(hosts[at]) for at in fitting if matches(board.nodes[order[at]], need)) >= left
