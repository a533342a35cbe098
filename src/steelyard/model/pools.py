"""What pools are for and what they let in, as closed lists. A pool is a set of devices with one purpose."""

from __future__ import annotations

from enum import StrEnum


class Purpose(StrEnum):
    """Closed: what a pool is for. It says so to people; what is let in stands in its admission rules."""

    PRODUCTION_INFERENCE = "production-inference"
    TRAINING = "training"
    BATCH = "batch"
    EXPERIMENT = "experiment"
    EVALUATION = "evaluation"
    DATA_PROCESSING = "data-processing"
    GENERAL = "general"


class ClosingCause(StrEnum):
    """Why a pool lets nothing new in."""

    DRIFT = "drift"  # what is declared of it and what was detected differ; ends when they agree again
    OPERATOR = "operator"  # somebody closed it; ends when somebody opens it


class DriftOf(StrEnum):
    """What of a pool may differ from what was declared."""

    LABEL = "label"
    NODE = "node"
    MODEL = "model"
    DRIVER = "driver"
    CLASS = "class"
