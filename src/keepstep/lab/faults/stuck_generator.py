# SPDX-License-Identifier: Apache-2.0
"""The rank's tf.data generator waits for a producer that is gone: the next batch never comes."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import tell

if TYPE_CHECKING:
    from keepstep.lab.run import Run

ROWS = 640


def change_data(data: Any) -> Any:
    import tensorflow as tf

    samples: queue.Queue[Any] = queue.Queue()
    for sample in data.take(ROWS).as_numpy_iterator():
        samples.put(sample)

    def read_samples() -> Iterator[Any]:
        while True:
            if samples.empty():
                tell("the generator waits for its producer")
            yield samples.get()

    return tf.data.Dataset.from_generator(read_samples, output_signature=data.element_spec)


def outside(run: Run) -> None:
    run.until(lambda: any("waits" in what for _, what in run.strikes()))


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    told = run.strikes()[-1][1]
    if "waits" not in told or not run.alive(run.scenario.struck):
        raise Unproven("the generator does not wait")
    return told
