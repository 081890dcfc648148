# SPDX-License-Identifier: Apache-2.0
"""COD219: all workers save to the same path."""

from __future__ import annotations

import re

from keepstep.model.facts import CodeCall, Value
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, lazy_pattern, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._saves import may_be_by_rank, saves
from keepstep.rules.code.tensorflow._tensorflow import Distributed, distributed, is_seen_from

_COUNTED = lazy_pattern(r"\w*(epoch|step|iteration)\w*( \+ 1)?", most=150)
_OWN = re.compile(r"rank|task|worker|chief|index|host|pid|uuid|te?mp|_id\b|write_(file)?path|local|resolver", re.I)


_PLAIN = ("os.path.join", "str", "pathlib.Path", "os.path.abspath")


def _path(tf: Distributed, save: Call) -> Value | None:
    """Where a save writes to; for a manager of checkpoints, its folder."""
    on = save.fact.on
    if on is not None and on.made == "tensorflow.train.CheckpointManager":
        made = [
            each
            for each in tf.known.calls(on.made)
            if each.fact.assigned == on.text and is_seen_from(each.fact.function, save.fact.function, on.text)
        ]
        return made[0].fact.argument("directory", 1) if len(made) == 1 else None
    if save.fact.name.startswith(("tensorflow.saved_model", "keras.")) and save.fact.method in ("save", "save_model"):
        is_function = save.fact.name.rpartition(".")[0] in ("tensorflow.saved_model", "keras.models", "keras.saving")
        return save.fact.arguments[1].value if is_function and len(save.fact.arguments) > 1 else _first(save)
    return _first(save)


def _first(save: Call) -> Value | None:
    return save.fact.arguments[0].value if save.fact.arguments else None


def _is_same_text(tf: Distributed, save: Call, path: Value) -> bool:
    """Whether all that is put into a text is constant, or counts epochs or steps."""
    names = re.findall(r"\{([^{}:!]*)", path.text)
    constant = {
        each.fact.target
        for each in tf.known.assigned_in_file(save)
        if each.fact.value.literal is not None
        and is_seen_from(each.fact.function, save.fact.function, each.fact.target)
    }
    return all(name in constant or _COUNTED.fullmatch(name) for name in names)


def _is_one_path(tf: Distributed, save: Call, path: Value) -> bool:
    """Whether nothing in the path can differ by worker, as far as it is known."""
    if path.ranked or _OWN.search(path.text) or path.target:
        return False
    if path.literal is not None:
        return True
    values = [
        each.fact.value
        for each in tf.known.assigned_in_file(save)
        if each.fact.target == path.text and is_seen_from(each.fact.function, save.fact.function, path.text)
    ]
    function = tf.known.functions.get(save.fact.function)
    if function is not None and path.text in function.fact.parameters:
        return False
    if path.text.startswith(("f'", 'f"')):
        return _is_same_text(tf, save, path)
    if path.made and "(" in path.text and path.made not in _PLAIN:
        return False
    return bool(values or path.made in _PLAIN or re.fullmatch(r"\w+(\.\w+)+", path.text)) and not any(
        value.ranked or value.target or _OWN.search(value.text) for value in values
    )


@rule(
    id="COD219",
    cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def all_workers_write_one_path(seen: EvidenceSet) -> Findings:
    """Under `MultiWorkerMirroredStrategy`, every worker saves to the same path.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/shared/model")
    ```

    ## Why it happens
    All workers must save, but on a shared disk they write over each other: files are mixed, or one worker deletes
    what another one writes.

    ## How we know
    The call stands under no condition of the rank, in its function and in those that call it, and nothing in its
    path differs by worker.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_chief = strategy.cluster_resolver.task_id == 0
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    path = (
        "/shared/model"
        if is_chief
        else f"/tmp/{strategy.cluster_resolver.task_id}"
    )
    model.save(path)
    ```

    ## When this is wrong
    When the path is on a disk of each worker's own.
    """
    tf = distributed(seen)
    for each in saves(tf):
        path = _path(tf, each)
        if path is None or not _is_one_path(tf, each, path) or may_be_by_rank(tf, each):
            continue
        yield Found(
            title="all workers save to the same path",
            because=f"`{path.text}` is the same on every worker: on a shared disk they write over each other",
            evidence=(each,),
            fixes=(Fix(do="let only the chief write to this path, and each of the others to a folder of its own"),),
        )
