"""Fragmentation gradient descent (FGD), the peer of `openb_pack`: written after the paper and its simulator's
documented behaviour (USENIX ATC '23, section 4).

A node's fragmentation is the GPU on it that a task drawn from the mix could not use; a task goes where that
grows least. As published, the score is the sigmoid of the change, in whole per cents, and ties go to the
first node. Equal nodes score equally, so that scores are kept by node state and by task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.openb import WHOLE, Node, Task

MOST_GPUS = 8
#: The mix is what makes up this share of it, in thousandths, the most frequent first.
POPULAR = 950


class Fgd:
    """One run on the nodes in their given order."""

    def __init__(self, machines: Sequence[Node], mix: Mapping[Task, int]) -> None:
        self.models = sorted({node.model for node in machines})
        self._mix(mix)
        self.memory = np.array([node.memory for node in machines])
        self.ids: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self.states: list[tuple[int, int, tuple[int, ...]]] = []
        self.fragments = np.zeros(64)
        self.at = np.array([self._state(self._idle(node)) for node in machines])
        self.scores: dict[Task, np.ndarray] = {}
        self.known: dict[Task, int] = {}

    def _idle(self, node: Node) -> tuple[int, int, tuple[int, ...]]:
        return self.models.index(node.model), node.cpu, (WHOLE,) * node.gpus

    def _mix(self, mix: Mapping[Task, int]) -> None:
        """Typical tasks: by CPU, GPU and models, the most frequent up to the share that counts."""
        counted: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
        for task, count in mix.items():
            key = (task.cpu, task.gpus, task.milli, task.models)
            counted[key] = counted.get(key, 0) + count
        total, chosen, seen = sum(counted.values()), [], 0
        for key, count in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0])):
            if seen * 1000 > POPULAR * total:
                break
            chosen.append((key, count))
            seen += count
        self.weights = np.array([count / seen for _, count in chosen])
        self.cpu = np.array([key[0] for key, _ in chosen])
        self.gpus = np.array([key[1] for key, _ in chosen])
        milli = [key[2] for key, _ in chosen]
        self.sizes = np.array(sorted({*milli} | {1}))
        self.size_at = np.searchsorted(self.sizes, milli)
        self.suits = np.array(
            [[not key[3] or model in key[3] for key, _ in chosen] for model in self.models]
        )

    def _state(self, state: tuple[int, int, tuple[int, ...]]) -> int:
        known = self.ids.get(state)
        if known is None:
            known = self.ids[state] = len(self.states)
            self.states.append(state)
            if known >= len(self.fragments):
                self.fragments = np.concatenate([self.fragments, np.zeros(len(self.fragments))])
            model, cpu, left = state
            gpus = np.zeros((1, MOST_GPUS), dtype=np.int64)
            gpus[0, : len(left)] = left
            self.fragments[known] = self._fragmentation(np.array([model]), np.array([cpu]), gpus)[0]
        return known

    def _fragmentation(self, model: np.ndarray, cpu: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """Expected milli-GPUs of each state that a typical task can't use."""
        enough = gpus[:, :, None] >= self.sizes
        total = gpus.sum(1)[:, None]
        too_small = total - np.einsum("sg,sgq->sq", gpus, enough, dtype=np.int64)
        fitting = enough.sum(1)
        can = (
            (fitting[:, self.size_at] >= self.gpus)
            & (cpu[:, None] >= self.cpu)
            & (self.gpus > 0)
            & self.suits[model]
        )
        return np.where(can, too_small[:, self.size_at], total) @ self.weights

    def _score(self, task: Task, ids: Sequence[int]) -> None:
        """Fills in the task's scores for some states; −1 where it does not fit."""
        scores = self.scores[task]
        owner: list[int] = []
        after: list[tuple[int, int, tuple[int, ...]]] = []
        for state in ids:
            for choice in self.choices(task, self.states[state]):
                owner.append(state)
                after.append(choice)
        scores[list(ids)] = -1
        if not owner:
            return
        gpus = np.zeros((len(after), MOST_GPUS), dtype=np.int64)
        for row, (_, _, left) in enumerate(after):
            gpus[row, : len(left)] = left
        model, cpu = (np.array([state[at] for state in after]) for at in (0, 1))
        change = self.fragments[owner] - self._fragmentation(model, cpu, gpus)
        cut = np.floor(100 / (1 + np.exp(-change / WHOLE))).astype(np.int64)
        np.maximum.at(scores, owner, cut)

    def choices(
        self, task: Task, state: tuple[int, int, tuple[int, ...]]
    ) -> list[tuple[int, int, tuple[int, ...]]]:
        """The states that the task would leave: one for each GPU that a part could be taken of."""
        model, cpu, left = state
        if cpu < task.cpu or (task.models and self.models[model] not in task.models):
            return []
        if task.gpus == 0:
            return [(model, cpu - task.cpu, left)]
        if task.milli < WHOLE:
            fitting = sorted({size for size in left if size >= task.milli})
            return [(model, cpu - task.cpu, _without(left, size, task.milli)) for size in fitting]
        if left.count(WHOLE) < task.gpus:
            return []
        rest = tuple(sorted(left)[: len(left) - task.gpus])
        return [(model, cpu - task.cpu, rest + (0,) * task.gpus)]

    def place(self, task: Task) -> bool:
        """Takes a place, or tells that there is none."""
        if task not in self.scores:
            self.scores[task] = np.full(64, -2, dtype=np.int64)
        scores = self.scores[task]
        if len(scores) < len(self.states):
            grown = np.full(2 * len(self.states), -2, dtype=np.int64)
            grown[: len(scores)] = scores
            scores = self.scores[task] = grown
        found = scores[self.at]
        if (found == -2).any():
            self._score(task, np.unique(self.at[found == -2]).tolist())
            found = scores[self.at]
        found = np.where(self.memory >= task.memory, found, -1)
        node = int(found.argmax())
        if found[node] < 0:
            return False
        self.memory[node] -= task.memory
        self.at[node] = self._state(self._best(task, self.states[self.at[node]]))
        return True

    def _best(
        self, task: Task, state: tuple[int, int, tuple[int, ...]]
    ) -> tuple[int, int, tuple[int, ...]]:
        choices = self.choices(task, state)
        if len(choices) == 1:
            return choices[0]
        ids = [self._state(choice) for choice in choices]
        before = self.fragments[self.ids[state]]
        scores = np.floor(100 / (1 + np.exp((self.fragments[ids] - before) / WHOLE)))
        return choices[int(scores.argmax())]


def _without(left: tuple[int, ...], size: int, taken: int) -> tuple[int, ...]:
    rest = list(left)
    rest[rest.index(size)] -= taken
    return tuple(sorted(rest))
