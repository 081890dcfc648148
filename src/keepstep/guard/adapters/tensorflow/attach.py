# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: worlds of `tf.distribute`, programs and variables that ranks must share, steps, input, checkpoints.

TensorFlow has no hooks for most of this, so functions of `tensorflow.python` are wrapped. Only
loaded modules are looked up: `tensorflow.keras` loads lazily and is never touched. What a version lacks is said once.
"""

from __future__ import annotations

import atexit
import functools
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters.tensorflow import (
    batches_in_graph,
    checkpoints,
    input,
    keras,
    non_finite,
    traced_functions,
    trains_apart,
    transport,
    uneven_batches,
    world,
)
from keepstep.guard.adapters.tensorflow.tensorflow_state import State, inside
from keepstep.guard.adapters.tracebacks import leave_out_own_frames

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts


def attach(session: Adapts, module: Any) -> None:
    """Hook into TensorFlow, which has just been imported."""
    state = State(session, module)
    session.data_parallel.append(state.is_data_parallel)
    with session.part("tensorflow context"):
        state.executing_eagerly = inside("eager.context").executing_eagerly
    for name, part in (
        ("worlds", world),
        ("communication", transport),
        ("programs", traced_functions),
        ("input", input),
        ("checkpoints", checkpoints),
        ("shares", uneven_batches),
        ("exchanges", trains_apart),
        ("finite values", non_finite),
        ("drawn batches", batches_in_graph),
    ):
        with session.part(f"tensorflow {name}"):
            part.attach(state)
    with session.part("tensorflow's tracebacks"):
        leave_out_own_frames(inside("util.traceback_utils"))
    with session.part("keras"):
        keras.attach(session, state)
    atexit.register(session.guarded("last words", functools.partial(uneven_batches.last_words, state)))
