"""The chapters of the story, each with what is expected of it."""

from steelyard.demo.context import Step
from steelyard.demo.steps import closing, contention, evidence, failures, moving, opening, training, whole

#: In the order of the story: what takes its time is begun early and waited for late.
STEPS: tuple[Step, ...] = (
    *opening.STEPS,
    training.START,
    whole.BEGIN,
    contention.FILL,
    contention.REFUSE,
    whole.SCALE,
    failures.FAIL,
    failures.CANCEL,
    training.SERVE,
    whole.EVALUATE,
    contention.PREEMPT,
    moving.MOVE,
    failures.SILENCE,
    whole.LOSE,
    whole.FINISH,
    closing.GIVE_BACK,
    closing.MEASURE,
    closing.AUDIT,
    evidence.EXPORT,
)

__all__ = ["STEPS"]
