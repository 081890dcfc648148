# SPDX-License-Identifier: Apache-2.0
"""Ranks that fork when it is too late for that."""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class ForkPool(Fault):
    """The rank forks a pool of helpers after TensorFlow started its threads; the helper's first op never ends."""

    def at(self, step: int, rank: int) -> None:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            print(pool.map(self.augment, [float(step)]), flush=True)

    def augment(self, value: float) -> float:
        """Runs in the forked child, whose copy of TensorFlow has no threads."""
        import tensorflow as tf

        def noise(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.random.normal((512, 512)) @ tf.random.normal((512, 512))) * x

        return float(tf.function(noise)(tf.constant(value)))

    def proof(self, run: Run) -> str:
        pid = run.pid_of(run.scenario.struck)
        children = run.children_of(pid)
        if not children:
            raise run.unproven("the rank has no forked child")
        return f"{run.proof_that_it_struck()}: its forked child (pid {children[0]}) has not ended"


class JaxFork(ForkPool):
    """The rank forks a pool of helpers after JAX started its threads; the helper's computation never ends."""

    def augment(self, value: float) -> float:
        """Runs in the forked child, whose copy of JAX has no threads."""
        import jax.numpy as jnp

        return float(jnp.linalg.norm(jnp.ones((512, 512)) * value))


class ForkWithLock(Fault):
    """The rank forks while another of its threads holds a lock; the child waits for that lock forever."""

    cache_lock = threading.Lock()

    def at(self, step: int, rank: int) -> None:
        holding = threading.Event()
        threading.Thread(target=self.refresh_cache, args=(holding,), daemon=True).start()
        holding.wait()
        child = multiprocessing.get_context("fork").Process(target=self.preprocess, name="preprocess")
        child.start()
        child.join()

    def refresh_cache(self, holding: threading.Event) -> None:
        """The thread that holds the lock when the process forks."""
        with self.cache_lock:
            holding.set()
            time.sleep(1)

    def preprocess(self) -> None:
        """The child: its copy of the lock is held by a thread that it does not have."""
        with self.cache_lock:
            print("never reached", flush=True)

    def proof(self, run: Run) -> str:
        children = run.children_of(run.pid_of(run.scenario.struck))
        if not children or "never reached" in run.log_of(run.scenario.struck):
            raise run.unproven("there is no child that waits")
        return f"{run.proof_that_it_struck()}; its forked child {children[-1]} waits for a lock"
