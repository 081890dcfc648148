# SPDX-License-Identifier: Apache-2.0
"""COD228: memory growth is set when the GPUs are in use already."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._order import calls_of, in_wrong_order, uses_of_devices
from keepstep.rules.code.tensorflow._tensorflow import Distributed, distributed

_SETS = (
    "tensorflow.config.experimental.set_memory_growth",
    "tensorflow.config.set_logical_device_configuration",
    "tensorflow.config.experimental.set_virtual_device_configuration",
)
_STRATEGY = re.compile(r"^tensorflow\.distribute\.(Mirrored|MultiWorkerMirrored|OneDevice|CentralStorage)Strategy$")


def _starts(tf: Distributed, function: str) -> list[Call]:
    strategies = [each for each in tf.known.inside(function) if _STRATEGY.match(each.fact.name)]
    return sorted([*strategies, *uses_of_devices(tf)(function)], key=lambda each: each.fact.order)


@rule(id="COD228", cause=Cause.RESOURCE_GPU_OOM, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def memory_growth_too_late(seen: EvidenceSet) -> Findings:
    """`set_memory_growth` comes after something that initialised the GPUs.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    ```

    ## Why it happens
    The first operation, a strategy, or `list_logical_devices` initialises the GPUs, and TensorFlow takes their
    memory then. After that the setting raises `Physical devices cannot be modified after being initialized`.

    ## How we know
    In one function, or through the functions that it calls, the first use of the devices comes before the setting.

    ## What to do
    ```python
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    strategy = tf.distribute.MirroredStrategy()
    ```

    ## When this is wrong
    When the program runs without a GPU.
    """
    tf = distributed(seen)
    told = set()
    late = list(tf.known.calls(*_SETS))
    for first, then in in_wrong_order(tf, late, lambda name: _starts(tf, name), calls_of(tf, _SETS)):
        if then.here.origin in told:
            continue
        told.add(then.here.origin)
        yield Found(
            title="memory growth is set after the GPUs were initialised",
            because=f"line {first.here.origin.line} uses the devices before; TensorFlow then refuses the setting with"
            " `Physical devices cannot be modified after being initialized`",
            evidence=(then.here, first.here),
            fixes=(Fix(do="set it at the start of the program, before any strategy and any operation"),),
        )
