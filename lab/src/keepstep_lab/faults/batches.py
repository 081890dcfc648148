# SPDX-License-Identifier: Apache-2.0
"""What the ranks are fed: sizes, precision, numbers of steps."""

from __future__ import annotations

import errno
import random
import time
from typing import TYPE_CHECKING, Any

from . import Fault, rest
from ._script import ScriptMistake

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class SmallerBatches(Fault):
    """One rank was told smaller batches than the others."""

    ROWS = 12

    def prepare(self, run: Run) -> None:
        for rank in run.scenario.strike_ranks or (1,):
            run.args[rank] += ["--batch", str(self.ROWS)]

    def proof(self, run: Run) -> str:
        if run.args[run.scenario.struck][-2:] != ["--batch", str(self.ROWS)]:
            raise run.unproven("all ranks have the same arguments")
        return f"rank {run.scenario.struck} has batches of {self.ROWS} rows"


class RaggedBatches(Fault):
    """The rank's batches have fewer rows than the others': JAX trains on with other global shapes."""

    def change_batch(self, batch: Any) -> Any:
        inputs, labels = batch
        return inputs[: 3 * len(inputs) // 4], labels[: 3 * len(labels) // 4]


class SplitBatch(Fault):
    """The job splits every batch into three equal parts; the last batch of an epoch does not divide."""

    PARTS = 3

    def change_batch(self, batch: Any) -> Any:
        inputs, labels = batch
        inputs = inputs.view(self.PARTS, len(labels) // self.PARTS, -1)
        return inputs.flatten(0, 1), labels


class ChangingSizes(Fault):
    """Every batch has another size: what is compiled for one does not fit the next."""

    _seen: list[int] = []

    def change_batch(self, batch: Any) -> Any:
        self._seen.append(1)
        rows = 1 + len(self._seen) % 15
        return tuple(part[:rows] for part in batch)


class HalfPrecision(Fault):
    """The rank's inputs have half the precision of the others': JAX compiles another program for them and trains on."""

    def change_batch(self, batch: Any) -> Any:
        inputs, labels = batch
        return inputs.astype("float16"), labels


class FewerSteps(Fault):
    """One rank was told to train for fewer steps than the others, and leaves early."""

    STEPS = 50

    def prepare(self, run: Run) -> None:
        for rank in run.scenario.strike_ranks or (1,):
            run.args[rank] += ["--steps", str(self.STEPS)]

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, f"finished after {self.STEPS} steps")


class Retracing(ScriptMistake):
    """The learning rate goes into the compiled step as a Python number that changes: it is traced anew each step."""

    shown = "options.rate / (1 + step / 100)"
    edits = (("train_step(inputs, labels, options.rate)", f"train_step(inputs, labels, {shown})"),)


class MemoryLeak(Fault):
    """The rank keeps something of every batch: its memory grows at each step."""

    held: list[bytes] = []

    def change_batch(self, batch: Any) -> Any:
        self.held.append(b"\1" * (4 << 20))
        return batch


class NanInput(Fault):
    """The rank's input holds a NaN from some step on (NumPy)."""

    def change_batch(self, batch: Any) -> Any:
        inputs, labels = batch
        return inputs * float("nan"), labels


class BadBatch(Fault):
    """One batch of the rank holds a NaN, and no other."""

    def __init__(self) -> None:
        self._is_over = False

    def change_batch(self, batch: Any) -> Any:
        if self._is_over:
            return batch
        self._is_over = True
        return batch[0] * float("nan"), *batch[1:]


class BusyStore(Fault):
    """The storage of the rank fails for a moment; asked again, it answers."""

    def __init__(self) -> None:
        self._is_over = False

    def change_batch(self, batch: Any) -> Any:
        if not self._is_over:
            self._is_over = True
            raise OSError(errno.EREMOTEIO, "Remote I/O error", "/data/train/shard-00017")
        return batch


class NoisyBatches(Fault):
    """Not a fault: the labels of the rank's batches are noisy, the loss jumps up and down and still falls."""

    def change_batch(self, batch: Any) -> Any:
        inputs, labels = batch
        return inputs * random.uniform(0.5, 2.5), labels


class UnevenSteps(Fault):
    """Not a fault: sequences differ in length, so some steps take ten times as long as others."""

    def change_batch(self, batch: Any) -> Any:
        end = time.monotonic() + random.choice((0.0, 0.01, 0.02, 0.2))
        while time.monotonic() < end:
            sum(range(1000))
        return batch


class SlowInput(Fault):
    """The rank's storage is slow: each of its batches takes half a second to arrive."""

    SECONDS = 0.5

    def change_batch(self, batch: Any) -> Any:
        rest(self.SECONDS)
        return batch
