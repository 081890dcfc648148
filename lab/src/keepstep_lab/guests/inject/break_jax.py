# SPDX-License-Identifier: Apache-2.0
"""Breaks a JAX program from outside: at its start through its command line and variables, later where it hands a batch
to JAX.

Loaded by ``sitecustomize`` beside it.
"""

from __future__ import annotations

import os
import sys
import time

import strikes as fault

COORDINATORS = ("JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS")
COUNTS = ("JAX_NUM_PROCESSES", "NUM_PROCESSES")
IDS = ("JAX_PROCESS_ID", "PROCESS_ID")
SLOWLY_S = 0.05
"""A step takes at least so long where a signal from outside must find the program training."""
batches = 0


def process_id():
    """As the command line or the variables say."""
    given = option("--process-id") or next((os.environ[name] for name in IDS if name in os.environ), "")
    return int(given) if given.isdecimal() else None


def option(name):
    words = sys.argv
    return words[words.index(name) + 1] if name in words[:-1] else None


def change(name, variables, new):
    """What the user typed wrongly, on the command line or in the environment."""
    if option(name) is not None:
        sys.argv[sys.argv.index(name) + 1] = new(option(name))
    for variable in variables:
        if variable in os.environ:
            os.environ[variable] = new(os.environ[variable])


def misconfigure():
    """Before the program begins."""
    if (
        fault.FAULT == "wrong_count" and process_id() is not None
    ):  # of all processes: JAX goes by what the first one says
        change("--num-processes", COUNTS, lambda count: str(int(count) + 1))
        fault.struck("waits for one process too many")
    if process_id() != fault.RANK:
        return
    if fault.FAULT == "wrong_port":
        change("--coordinator", COORDINATORS, lambda at: f"{at.rpartition(':')[0]}:{int(at.rpartition(':')[2]) + 1}")
        fault.struck("looks for the coordinator at the wrong port")
    elif fault.FAULT == "same_id":
        change("--process-id", IDS, lambda own: "0")
        fault.struck("has the process id of rank 0")
    elif fault.FAULT == "never_arrives" and fault.struck("does not arrive"):
        while True:
            time.sleep(3600)


def watch(distributed):
    """When a world is about to form, everything is imported, and what hands batches to JAX can be wrapped."""
    initialize = distributed.State.initialize

    def initialize_and_watch(self, *args, **kwargs):
        result = initialize(self, *args, **kwargs)
        import jax
        from jax.experimental import multihost_utils

        rank = self.process_id
        with open(os.path.join(fault.NOTES, f"rank{rank}"), "w") as note:
            note.write(str(os.getpid()))
        jax.make_array_from_process_local_data = spoiled(jax.make_array_from_process_local_data, 1, rank)
        multihost_utils.host_local_array_to_global_array = spoiled(
            multihost_utils.host_local_array_to_global_array, 0, rank
        )
        return result

    distributed.State.initialize = initialize_and_watch


def spoiled(make, place, rank):
    """``make`` with another batch at the step, or with a strike before it."""

    def made(*args, **kwargs):
        data = args[place]
        parts = list(data) if isinstance(data, tuple) else [data]
        if any(part.dtype.kind == "f" for part in parts):
            begin_batch(rank)
        if rank == fault.RANK and batches == fault.STEP:
            parts = [another(part) for part in parts]
        args = (*args[:place], tuple(parts) if isinstance(data, tuple) else parts[0], *args[place + 1 :])
        return make(*args, **kwargs)

    return made


def begin_batch(rank):
    global batches
    batches += 1
    if rank == fault.RANK and batches == fault.STEP and fault.FAULT in fault.STRIKES:
        fault.STRIKES[fault.FAULT]()
    if fault.FAULT in ("killed", "stopped") and not os.path.exists(os.path.join(fault.NOTES, "struck")):
        time.sleep(SLOWLY_S)


def another(part):
    if fault.FAULT == "other_shape":
        fault.struck("gets a batch of fewer rows")
        return part[:-2]
    if fault.FAULT == "nan_batch" and part.dtype.kind == "f":
        fault.struck("gets a batch with a NaN")
        part = part.copy()
        part.flat[3] = float("nan")
    return part
