# SPDX-License-Identifier: Apache-2.0
"""Ranks that keep the others waiting: asleep, locked, late, or at work."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class SleepLong(Fault):
    """The rank stops for five minutes at one step: the others wait in the collective."""

    def at(self, step: int, rank: int) -> None:
        time.sleep(300)

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        told = run.proof_that_it_struck()
        ended_asleep = "faults/waits.py" in run.log_of(rank)  # a watchdog printed its stack
        if not ended_asleep and run.status_of(rank) not in (None, -signal.SIGTERM, -signal.SIGKILL):
            raise run.unproven(f"rank {rank} did not sleep to the end: its status is {run.status_of(rank)}")
        return f"{told}, and nothing woke it"


class SleepThenEnded(SleepLong):
    """The rank sleeps at one step while the others wait, until someone ends the whole job with SIGTERM."""

    PATIENCE_S = 20.0

    def outside(self, run: Run) -> None:
        if not run.until(lambda: bool(run.strikes())):
            return
        run.over.wait(self.PATIENCE_S)
        for pid in run.rank_pids().values():
            os.kill(pid, signal.SIGTERM)
        run.strike(f"SIGTERM was sent to all ranks {self.PATIENCE_S:g} s later")

    def proof(self, run: Run) -> str:
        if len(run.strikes()) < 2:
            raise run.unproven("the rank was never asleep, or nobody ended the job")
        run.proof_of_signal(run.scenario.struck, signal.SIGTERM)
        return f"{run.strikes()[0][1]}; {run.strikes()[1][1]}"


class GilHeld(Fault):
    """Native code holds the interpreter lock and never returns: no Python thread of the rank can run."""

    def at(self, step: int, rank: int) -> None:
        ctypes.PyDLL(None).sleep(300)

    def proof(self, run: Run) -> str:
        if not run.alive(run.scenario.struck):
            raise run.unproven(f"rank {run.scenario.struck} has ended")
        return f"{run.proof_that_it_struck()} and sleeps in native code"


class LockDeadlock(Fault):
    """Two threads of the rank take two locks in opposite order, as a logger and a checkpointer might."""

    queue_lock = threading.Lock()
    state_lock = threading.Lock()

    def at(self, step: int, rank: int) -> None:
        both = threading.Barrier(2)
        threading.Thread(target=self.write_state, args=(both,), name="checkpointer", daemon=True).start()
        with self.queue_lock:
            both.wait()
            with self.state_lock:
                print("never reached")

    def write_state(self, both: threading.Barrier) -> None:
        """The other thread."""
        with self.state_lock:
            both.wait()
            with self.queue_lock:
                print("never reached")

    def proof(self, run: Run) -> str:
        if not run.alive(run.scenario.struck) or "never reached" in run.log_of(run.scenario.struck):
            raise run.unproven("the threads are not deadlocked")
        return f"{run.proof_that_it_struck()} and neither thread got its second lock"


class LateRank(Fault):
    """Not a fault: one rank starts some seconds after the others, which retry until it is there."""

    SECONDS = 6.0

    def prepare(self, run: Run) -> None:
        run.order.reverse()
        run.delay[0] = self.SECONDS

    def outside(self, run: Run) -> None:
        later = self._started(run.processes[0].pid) - self._started(run.processes[1].pid)
        run.strike(f"rank 0 started {later:.1f} s after rank 1")

    def proof(self, run: Run) -> str:
        told = run.strikes()[-1][1]
        if float(told.split()[3]) < self.SECONDS - 1:
            raise run.unproven(told)
        return told

    def _started(self, pid: int) -> float:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return ticks / os.sysconf("SC_CLK_TCK")


class LateStart(Fault):
    """One rank prepares its data before it joins the others, for longer than they wait."""

    SECONDS = 30.0
    ROUND = 20_000

    def change_start(self, value: Any) -> Any:
        end, done = time.monotonic() + self.SECONDS, 0
        while time.monotonic() < end:
            asked = time.monotonic() + 2.0
            while time.monotonic() < asked:
                for number in range(self.ROUND):
                    hashlib.sha256(str(number).encode()).digest()
                done += self.ROUND
            print(f"hashed {done} of 60000000 documents", flush=True)
        return value

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        other = 0 if rank else 1
        if not run.status_of(other):
            raise run.unproven(f"rank {other} did not give up; its status is {run.status_of(other)}")
        if "step " in run.log_of(rank):
            raise run.unproven(f"rank {rank} trained")
        return f"{run.proof_in_log(rank, 'of 60000000 documents')}; rank {other} ended with {run.status_of(other)}"


class LongEvaluation(Fault):
    """Not a fault: one rank evaluates for many seconds, at full work, while the others wait."""

    SECONDS = 40.0

    def at(self, step: int, rank: int) -> None:
        import numpy as np

        end, rows = time.monotonic() + self.SECONDS, 0
        weights = np.ones((1024, 1024), dtype="float32")
        while time.monotonic() < end:
            weights = np.tanh(weights @ weights)
            rows += len(weights)
        print(f"evaluated {rows} rows", flush=True)

    def proof(self, run: Run) -> str:
        if "evaluated" in run.log_of(run.scenario.struck):
            raise run.unproven("the evaluation has ended")
        return f"{run.proof_that_it_struck()} and has not ended"


class LongTrace(Fault):
    """Not a fault: every rank traces a tf.function with very many operations, which takes a while."""

    LAYERS = 60_000

    def at(self, step: int, rank: int) -> None:
        import tensorflow as tf

        def unrolled(x: tf.Tensor) -> tf.Tensor:
            for _ in range(self.LAYERS):
                x = tf.tanh(x) + 0.5
            return x

        tf.function(unrolled).get_concrete_function(tf.TensorSpec((4,), tf.float32))
        print("the large function is traced", flush=True)

    def proof(self, run: Run) -> str:
        if "is traced" in run.log_of(run.scenario.struck):
            raise run.unproven("the tracing has ended")
        return f"{run.proof_that_it_struck()} and still traces"
