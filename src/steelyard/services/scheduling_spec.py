"""What is declared once for the whole installation: how work is ordered and placed, what models are worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from steelyard.model.policy import Fairness, ModelOrder, NodeOrder, Policy, QueueOrder
from steelyard.model.resources import DeviceClass
from steelyard.model.units import DAY, HOUR
from steelyard.services.queue_spec import (
    NOTHING_DECLARED,
    RulesSpec,
    read_defaults,
    read_span,
    span_text,
)
from steelyard.services.reading import DocumentReader, check_label_key, given, shown, write_amount

SCHEDULING_NAME = "default"
CONVERSION_NAME = "default"
MAX_MODELS = 1000
MAX_LEVELS = 8
MAX_MODEL_NAME = 128
#: What one device of a model may be worth, in thousandths of a normal device.
LEAST_WORTH, MOST_WORTH = 1, 1_000_000
#: How many times what is asked for may be stopped for it, in thousandths.
LEAST_EVICTED, MOST_EVICTED = 1_000, 1_000_000
MOST_MEMORY = 64 * 1024 * 1024  # MiB of one device
_MOST = {"placements": 10_000, "nodes": 1_000_000, "victims": 4096}
_THOUSANDTHS = DeviceClass.OTHER.value


@dataclass(frozen=True, slots=True)
class SchedulingPolicySpec:
    """None: as the product does by itself (`model.policy.Policy`)."""

    order: QueueOrder | None = None
    nodes: NodeOrder | None = None
    models: ModelOrder | None = None
    half_life: int | None = None  # µs
    sampling: int | None = None  # µs
    max_placements: int | None = None
    max_nodes: int | None = None
    max_victims: int | None = None
    observation_bound: int | None = None  # µs
    defaults: RulesSpec = NOTHING_DECLARED
    levels: tuple[str, ...] = ()  # keys of node labels, from far to near; empty: requests may name any
    max_evicted: int | None = None  # thousandths of what is asked for
    growth_window: int | None = None  # µs

    def to_spec(self) -> dict[str, Any]:
        """The document's spec."""
        return given(
            order=None if self.order is None else self.order.value,
            nodes=None if self.nodes is None else self.nodes.value,
            models=None if self.models is None else self.models.value,
            fairness=given(halfLife=span_text(self.half_life), sampling=span_text(self.sampling)),
            growth=given(stabilizationWindow=span_text(self.growth_window)),
            bounds=given(
                placements=self.max_placements,
                nodes=self.max_nodes,
                victims=self.max_victims,
                evicted=None if self.max_evicted is None else write_amount(_THOUSANDTHS, self.max_evicted),
                observation=span_text(self.observation_bound),
            ),
            defaults=self.defaults.to_spec(),
            topology=given(levels=list(self.levels)),
        )

    def fairness(self) -> Fairness:
        """How use of the past counts."""
        usual = Fairness()
        return Fairness(
            usual.half_life if self.half_life is None else self.half_life,
            usual.sampling if self.sampling is None else self.sampling,
        )

    def window_of_growth(self) -> int:
        """µs after a gang was last asked for members in which it gets none."""
        return Policy(0).growth_window if self.growth_window is None else self.growth_window


@dataclass(frozen=True, slots=True)
class ConversionTableSpec:
    """What one device of a model counts as in limits on measures. Both are sorted by model.

    A model that is not there counts as one device, and as the largest memory that is there.
    """

    models: tuple[tuple[str, int], ...]  # thousandths
    memory: tuple[tuple[str, int], ...] = ()  # MiB

    def to_spec(self) -> dict[str, Any]:
        """The document's spec."""
        return given(
            models={model: write_amount(_THOUSANDTHS, worth) for model, worth in self.models},
            memory=dict(self.memory),
        )


def read_scheduling_policy(reader: DocumentReader) -> SchedulingPolicySpec:
    """Parses the spec."""
    order = reader.choice("order", QueueOrder) if reader.has("order") else None
    nodes = reader.choice("nodes", NodeOrder) if reader.has("nodes") else None
    models = reader.choice("models", ModelOrder) if reader.has("models") else None
    fairness = reader.reader("fairness")
    half_life = read_span(fairness, "halfLife")
    sampling = fairness.span("sampling", None, longest=DAY)
    fairness.finish()
    growth = reader.reader("growth")
    window = read_span(growth, "stabilizationWindow")
    growth.finish()
    bounds = reader.reader("bounds")
    placements, node_count, victims = (
        bounds.integer(key, None, low=1, high=most) if bounds.has(key) else None
        for key, most in _MOST.items()
    )
    evicted = bounds.optional_amount("evicted", _THOUSANDTHS)
    if evicted is not None and not LEAST_EVICTED <= evicted <= MOST_EVICTED:
        bounds.wrong("field-out-of-bounds", bounds.at("evicted"), low=1, high=MOST_EVICTED // 1000)
    observation = bounds.span("observation", None, longest=HOUR)
    bounds.finish()
    inner = reader.reader("defaults")
    defaults = read_defaults(inner)
    inner.finish()
    levels = _levels(reader.reader("topology"))
    return SchedulingPolicySpec(
        order, nodes, models, half_life, sampling, placements, node_count, victims, observation, defaults,
        levels, evicted, window,
    )  # fmt: skip


def _levels(reader: DocumentReader) -> tuple[str, ...]:
    """Keys of node labels without doubles."""
    found = reader.texts("levels", MAX_LEVELS)
    for index, level in enumerate(found):
        reader.attempt("", partial(check_label_key, level, f"{reader.at('levels')}[{index}]"))
    reader.finish()
    return found


def read_conversion_table(reader: DocumentReader) -> ConversionTableSpec:
    """Parses the spec."""
    models = _by_model(reader, "models", _THOUSANDTHS, LEAST_WORTH, MOST_WORTH)
    memory = _by_model(reader, "memory", DeviceClass.MEMORY.value, 1, MOST_MEMORY)
    if not models and not memory and not reader.is_wrong("models"):
        reader.wrong("field-missing", reader.at("models"))
    return ConversionTableSpec(models, memory)


def _by_model(
    reader: DocumentReader, key: str, unit: str, least: int, most: int
) -> tuple[tuple[str, int], ...]:
    inner = reader.reader(key)
    names = inner.left()
    if len(names) > MAX_MODELS:
        reader.wrong("field-out-of-bounds", reader.at(key), low=1, high=MAX_MODELS)
    found = []
    for model in names:
        if not 0 < len(model) <= MAX_MODEL_NAME or not model.isprintable():
            inner.wrong("field-invalid", inner.at(shown(model)), expected="model")
        amount = inner.attempt(least, partial(inner.amount, model, unit))
        if not least <= amount <= most:
            inner.wrong("field-out-of-bounds", inner.at(shown(model)), low=least, high=most)
        found.append((model, amount))
    return tuple(sorted(found))
