# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: worlds of `tf.distribute`, programs and variables that ranks must share, steps, input, checkpoints.

TensorFlow has no hooks for most of this, so functions of `tensorflow.python` are wrapped. Only
loaded modules are looked up: `tensorflow.keras` loads lazily and is never touched. What a version lacks is said once.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keepstep.guard.adapters import safetensors_files
from keepstep.guard.adapters.tensorflow import (
    batches_in_graph,
    fingerprints,
    input,
    keras,
    non_finite,
    traced_functions,
    trains_apart,
    uneven_batches,
    world,
)
from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState, first, inside, replace
from keepstep.guard.adapters.tracebacks import leave_out_own_frames
from keepstep.guard.record.named_pauses import in_phase
from keepstep.guard.transport import collectives
from keepstep.signals.blackbox import BoxPhase

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts


def attach(session: Adapts, module: Any) -> None:
    """Hook into TensorFlow, which has just been imported."""
    state = TensorFlowState(session, module)
    session.data_parallel.append(state.is_data_parallel)
    with session.part("tensorflow context"):
        state.executing_eagerly = inside("eager.context").executing_eagerly
    for name, hook in (
        ("worlds", world.attach),
        ("communication", _hook_communication),
        ("programs", traced_functions.attach),
        ("input", input.attach),
        ("checkpoints", _hook_checkpoints),
        ("shares", uneven_batches.attach),
        ("exchanges", trains_apart.attach),
        ("finite values", non_finite.attach),
        ("drawn batches", batches_in_graph.attach),
        ("replicas", fingerprints.attach),
    ):
        with session.part(f"tensorflow {name}"):
            hook(state)
    with session.part("tensorflow's tracebacks"):
        leave_out_own_frames(inside("util.traceback_utils"))
    with session.part("keras"):
        keras.attach(session, state)
    atexit.register(session.guarded("last words", functools.partial(uneven_batches.last_words, state)))


def _hook_checkpoints(state: TensorFlowState) -> None:
    """Saving and restoring: a pause that is not a hang."""
    session, saving = state.session, in_phase(state.session, int(BoxPhase.CHECKPOINT))
    owner = getattr(first("checkpoint.checkpoint", "training.tracking.util"), "Checkpoint", None)
    ledger = session.ledger
    saves = ledger.saves("tensorflow", lambda: f"tensorflow {state.version}")
    loads = ledger.loads(lambda checkpoint, save_path, *args, **kwargs: save_path)
    for name, recorded in (("save", saves), ("write", saves), ("_write", saves), ("read", loads), ("restore", loads)):
        replace(session, "checkpoints", owner, name, functools.partial(_both, saving, recorded))
    safetensors_files.watch(session)
    replace(session, "saved models", first("saved_model.save"), "save_and_return_nodes", saving)
    replace(session, "saved models", first("saved_model.load"), "load_partial", saving)


def _both(outer: Callable[[Any], Any], inner: Callable[[Any], Any], original: Any) -> Any:
    return outer(inner(original))


def _hook_communication(state: TensorFlowState) -> None:
    """Ring in place of NCCL in the communication options, where the supervisor asks for it (`--remedy all`)."""
    options = first("distribute.collective_util")
    kinds: Any = getattr(options, "CommunicationImplementation", None)

    def made(original: Any) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if collectives() == "ring":
                with state.session.part("communication options"):
                    self.implementation = kinds.RING

        return init

    replace(state.session, "communication options", getattr(options, "Options", None), "__init__", made)
