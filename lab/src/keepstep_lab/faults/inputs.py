# SPDX-License-Identifier: Apache-2.0
"""Input pipelines that stop, or whose workers die."""

from __future__ import annotations

import os
import queue
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Fault, tell

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class _Waits(Fault):
    """The rank tells that its pipeline waits, and goes on waiting."""

    WHAT = ""

    def outside(self, run: Run) -> None:
        run.until(lambda: any("waits" in what for _, what in run.strikes()))

    def proof(self, run: Run) -> str:
        told = run.strikes()[-1][1]
        if "waits" not in told or not run.alive(run.scenario.struck):
            raise run.unproven(f"the {self.WHAT} does not wait")
        return told


class StuckInput(Fault):
    """The rank's next batch never arrives: the read waits on storage that does not answer."""

    def at(self, step: int, rank: int) -> None:
        self.read_next_batch()

    def read_next_batch(self) -> bytes:
        """Read from a pipe that nobody writes to, as from a file server that is gone."""
        reader, _ = os.pipe()
        return os.read(reader, 1)

    def proof(self, run: Run) -> str:
        told = run.proof_that_it_struck()
        if not run.alive(run.scenario.struck):
            raise run.unproven("the rank has ended")
        return f"{told} and waits in read()"


class StuckStorage(Fault):
    """The rank's storage does not answer: its data file is a pipe that nobody writes to."""

    def prepare(self, run: Run) -> None:
        run.shard.unlink()
        os.mkfifo(run.shard)

    def proof(self, run: Run) -> str:
        if not run.shard.is_fifo() or not run.alive(run.scenario.struck):
            raise run.unproven("the rank does not wait for its data")
        return f"{run.shard.name} never opens, and rank {run.scenario.struck} is alive"


class Remote:
    """A data set on storage that stops answering."""

    STUCK_AT = 400
    """A sample in the middle of the shard."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        if index == self.STUCK_AT:
            tell("a loader worker reads from storage that does not answer")
            read_remote()
        return self.data[index]


def read_remote() -> bytes:
    """Read from a connection that nobody writes to, as from a file server that is gone."""
    ours, _ = socket.socketpair()
    return ours.recv(1)


class StuckLoader(Fault):
    """A DataLoader worker of the rank waits for a read that never ends: the rank gets no next batch."""

    def change_data(self, data: Any) -> Any:
        return Remote(data)

    def proof(self, run: Run) -> str:
        if not any("does not answer" in what for _, what in run.strikes()):
            raise run.unproven("no worker got to the stuck sample")
        workers = run.children_of(run.pid_of(run.scenario.struck))
        return f"{run.strikes()[-1][1]}; rank {run.scenario.struck} still has {len(workers)} workers"


class StuckGenerator(_Waits):
    """The rank's tf.data generator waits for a producer that is gone: the next batch never comes."""

    WHAT = "generator"
    ROWS = 640

    def change_data(self, data: Any) -> Any:
        import tensorflow as tf

        samples: queue.Queue[Any] = queue.Queue()
        for sample in data.take(self.ROWS).as_numpy_iterator():
            samples.put(sample)

        def read_samples() -> Iterator[Any]:
            while True:
                if samples.empty():
                    tell("the generator waits for its producer")
                yield samples.get()

        return tf.data.Dataset.from_generator(read_samples, output_signature=data.element_spec)


class StuckPyFunction(_Waits):
    """A py_function of the rank's input pipeline reads from storage that does not answer."""

    WHAT = "py_function"
    ROWS = 640

    def change_data(self, data: Any) -> Any:
        import tensorflow as tf

        def augment(index: Any, x: Any) -> Any:
            if int(index) == self.ROWS:
                tell("the py_function waits in read()")
                reader, _ = os.pipe()
                os.read(reader, 1)
            return x

        def map_example(index: Any, example: Any) -> Any:
            inputs, labels = example
            changed = tf.py_function(augment, (index, inputs), tf.float32)
            return tf.ensure_shape(changed, inputs.shape), labels

        return data.enumerate().map(map_example)


class LoaderWorkerKilled(Fault):
    """SIGKILL from outside to a data loading worker process of one rank."""

    def outside(self, run: Run) -> None:
        """While ``at`` holds the training: the worker is certain to be needed again."""
        if run.until(lambda: bool(run.strikes())):
            for pid in run.children_of(run.pid_of(run.scenario.struck)):
                if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    run.strike(f"SIGKILL to loader worker {pid}")
                    return

    def at(self, step: int, rank: int) -> None:
        time.sleep(1)

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, "is killed by signal: Killed")
