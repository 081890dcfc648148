# SPDX-License-Identifier: Apache-2.0
"""Workers that form a world and then train apart: a model outside `strategy.scope()`, a step without `strategy.run`.

Nothing fails, and nothing is slow: each worker trains a model of its own. The sign is what never happens: a
collective that carries more than a number or two, as gradients need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import TensorFlowState, first, replace

SOON = 50
"""After this many steps, workers that exchange gradients have done so."""
FEWEST = 20
"""The fewest steps after which the silence of a rank that ends early means something."""
LOOK_S = 0.5


def attach(state: TensorFlowState) -> None:
    launcher = getattr(first("distribute.cross_device_utils"), "CollectiveReplicaLauncher", None)
    for name in ("all_reduce", "all_gather"):
        replace(state.session, "exchanges of strategies", launcher, name, lambda original: _exchanged(state, original))
    state.session.pulse.every(LOOK_S, "exchanges of strategies", lambda: look(state, SOON))
    state.session.at_close.append(lambda: look(state, FEWEST))


def _exchanged(state: TensorFlowState, original: Any) -> Callable[..., Any]:
    """In a loop without any `tf.function`, collectives show only here. (Those of graphs are read in the graph.)"""

    see = state.session.guarded("exchanges of strategies", functools.partial(_see, state))

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.exchanges and state.executing_eagerly():
            see(args[0] if args else kwargs.get("input_tensor"))
        return original(self, *args, **kwargs)

    return call


def _see(state: TensorFlowState, tensor: Any) -> None:
    if getattr(getattr(tensor, "dtype", None), "is_floating", True):
        state.exchanges = True


def look(state: TensorFlowState, steps: int) -> None:
    """From the guard's thread, and when the process ends."""
    session = state.session
    if not state.formed or state.world < 2 or state.coordinated or state.alone_by_design or session.steps < steps:
        return
    if session.is_off("exchanges of strategies"):
        return
    told = state.told_apart
    if state.exchanges == (told is None):
        return  # they exchange, as they should; or it was reported
    fields = {"framework": "tensorflow", "world": state.world, "steps": session.steps, "scoped": state.variables > 0}
    if told is None:
        state.told_apart = session.steps
        words = (
            f"no gradient was exchanged in {session.steps} steps, though {state.world} workers formed a world: "
            "each trains a model of its own"
        )
        session.note("TrainsApart", fields, words)
        session.say(words)
    else:
        state.told_apart = None
        session.note(
            "TrainsApart",
            {**fields, "over": True},
            f"the workers exchange gradients after all, since about step {session.steps}",
        )
    session.flush()
