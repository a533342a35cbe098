"""Price lists as they are made of the work that came lately, stored, and read again for the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from steelyard.model.resources import ACCELERATORS, Availability, DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling.prices import PriceList, Prices
from steelyard.services.price_programme import Task, prices_of
from steelyard.services.shapes import read_shape
from steelyard.store import past
from steelyard.store import prices as rows
from steelyard.store import tables as t
from steelyard.store.closings import pool_sums
from steelyard.store.database import View
from steelyard.store.versioned import body_at, newest

#: Workloads submitted last that make up the mix.
WINDOW = 1000
#: Members with devices that must be among them: of fewer nothing follows.
FEWEST = 20
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Prices]).decode


def body_of(prices: PriceList) -> str:
    """As it is stored."""
    return _encode({cls.value: found for cls, found in prices.items()}).decode()


def read_body(body: str) -> dict[DeviceClass, Prices]:
    """Of a stored list."""
    return {DeviceClass(name): found for name, found in _decode(body).items()}


def load_prices(view: View) -> PriceList:
    """The list made last; empty before the first."""
    found = newest(view, t.price_list)
    return {} if found is None else read_body(found[1])


def prices_at(view: View, at: int) -> PriceList:
    """The list of an instant; 0: there was none."""
    body = body_at(view, t.price_list, at) if at else None
    return {} if body is None else read_body(body)


def instant_of(prices: PriceList) -> int:
    """When a list was made; 0 for none."""
    return max((found.version for found in prices.values()), default=0)


def prices_of_lately(view: View, at: int) -> PriceList:
    """A list made of what was submitted last; empty where that is too little."""
    counts = rows.arrived_lately(view, WINDOW)
    shapes = {key: read_shape(body) for key, body in past.shapes(view, counts).items()}
    mix = ((shapes[key], count) for key, count in sorted(counts.items()) if key in shapes)
    return price_list(mix, at, stock_of(view))


@dataclass(frozen=True, slots=True)
class Stock:
    """Accelerators that are offered: milli-devices by class and model, and which models each flavor has."""

    capacity: Mapping[DeviceClass, Mapping[str, int]] = field(default_factory=dict)
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def would_do(self, shape: Shape, request: MemberRequest) -> frozenset[str]:
        """The models that a request names, by its flavors or by the speeds of its shape, too; empty: any."""
        named = frozenset(request.models) or frozenset(model for model, _ in shape.speeds)
        if not request.flavors:
            return named
        having = frozenset(model for name in request.flavors for model in self.models.get(name, ()))
        return named & having if named else having


def stock_of(view: View) -> Stock:
    """What pools offer now."""
    capacity: dict[DeviceClass, dict[str, int]] = {}
    models: dict[str, frozenset[str]] = {}
    for row in pool_sums(view):
        device_class = DeviceClass(row["device_class"])
        if device_class in ACCELERATORS and row["model"] and row["availability"] == Availability.AVAILABLE:
            of_class = capacity.setdefault(device_class, {})
            of_class[row["model"]] = of_class.get(row["model"], 0) + row["capacity"]
            models[row["flavor"]] = models.get(row["flavor"], frozenset()) | {row["model"]}
    return Stock(capacity, models)


def price_list(mix: Iterable[tuple[Shape, int]], at: int, stock: Stock | None = None) -> PriceList:
    """The list that follows from a mix: for each class of accelerators of which enough is asked for; models
    have prices where it is known what there is."""
    stock = stock or Stock()
    tasks: dict[DeviceClass, list[Task]] = {}
    for shape, count in mix:
        for _, members, request in shape.roles:
            cores = request.amount(DeviceClass.CPU)
            for device_class in ACCELERATORS:
                amount = request.amount(device_class)
                if amount:
                    models = stock.would_do(shape, request)
                    tasks.setdefault(device_class, []).append(Task(amount, cores, count * members, models))
    found = {}
    for device_class, asked in tasks.items():
        enough = sum(task.count for task in asked) >= FEWEST
        prices = prices_of(asked, at, stock.capacity.get(device_class)) if enough else None
        if prices is not None:
            found[device_class] = prices
    return found


def is_same(one: PriceList, other: PriceList) -> bool:
    """True when only the instants differ."""
    return _timeless(one) == _timeless(other)


def _timeless(prices: PriceList) -> dict[DeviceClass, Prices]:
    return {cls: replace(found, version=0) for cls, found in prices.items()}
