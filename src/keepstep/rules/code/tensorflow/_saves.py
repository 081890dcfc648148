# SPDX-License-Identifier: Apache-2.0
"""What writes a model or a checkpoint, in programs with several workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import Value
from keepstep.rules.code._asking import Call, is_on_some_ranks
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed

_FUNCTIONS = ("tensorflow.saved_model.save", "keras.models.save_model", "keras.saving.save_model")
_CHECKPOINTS = re.compile(r"^tensorflow\.train\.(Checkpoint|CheckpointManager)$")
_TEXT = re.compile(r"(^|[._])(model|checkpoint|ckpt|checkpoint_manager|ckpt_manager|manager)$", re.I)


def saves(tf: Distributed) -> Iterator[Call]:
    """The calls that write a model or a checkpoint where a multi-worker strategy is used."""
    for each in (*tf.known.calls(*_FUNCTIONS), *tf.known.methods("save", "save_weights", "write", "export")):
        on = each.fact.on
        if each.fact.name not in _FUNCTIONS and (on is None or not _is_saved(tf, on)):
            continue
        if tf.surely(each, MULTI) and not tf.known.imports(each, "horovod"):
            yield each


def _is_saved(tf: Distributed, on: Value) -> bool:
    if on.made.startswith(("torch.", "numpy.", "PIL.")):
        return False
    return bool(_CHECKPOINTS.match(on.made)) or tf.is_model(on.made, on.target) or bool(_TEXT.search(on.text))


def is_by_rank(tf: Distributed, place: Call, hops: int = 4) -> bool:
    """Whether a condition of the rank decides that it is reached, here or in all callers."""
    if is_on_some_ranks(place):
        return True
    callers = tf.known.callers(place.fact.function) if hops else []
    return bool(callers) and all(is_by_rank(tf, each, hops - 1) for each in callers)


def may_be_by_rank(tf: Distributed, place: Call, hops: int = 4) -> bool:
    """Whether a condition of the rank may decide: in some caller, or in callers that were not read."""
    if is_on_some_ranks(place) or hops == 0:
        return True
    function = place.fact.function
    if function.endswith(".<module>"):
        return False
    callers = tf.known.callers(function)
    if not callers:
        return not re.match(r"_?(main|train|run|fit)", function.rpartition(".")[2])
    return any(may_be_by_rank(tf, each, hops - 1) for each in callers)
