# SPDX-License-Identifier: Apache-2.0
"""COD226: double precision on a TPU."""

from __future__ import annotations

import re

from keepstep.model.facts import Argument, CodeCall
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, Severity, rule
from keepstep.rules.code._asking import Call, short
from keepstep.rules.code.tensorflow._tensorflow import TPU, Distributed, at_line, distributed

_WIDE = ("'float64'", "'double'")
_TENSORS = re.compile(
    r"^tensorflow\.(cast|constant|Variable|zeros|ones|convert_to_tensor|random\.\w+)$|^keras\.(layers\.\w+|Input)$"
    r"|^keras\.(backend|config)\.set_floatx$|^keras\.(mixed_precision|config)\.set_(global_policy|dtype_policy)$"
)


def _makes_tensors(tf: Distributed, call: Call) -> bool:
    if _TENSORS.match(call.fact.name):
        return True
    function = tf.known.functions.get(call.fact.target) or tf.known.functions.get(f"{call.fact.name}.call")
    return function is not None and any(base.startswith("keras.layers.") for base in function.fact.bases)


def _is_wide(call: Call, argument: Argument) -> bool:
    is_type = argument.name in ("dtype", "floatx") or not argument.name
    return is_type and (
        argument.value.made in ("tensorflow.float64", "numpy.float64") or argument.value.literal in _WIDE
    )


@rule(
    id="COD226",
    cause=Cause.DATA_DTYPE_MISMATCH,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def tpu_float64(seen: EvidenceSet) -> Findings:
    """A program for a TPU computes in double precision.

    ## What it looks like
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    with strategy.scope():
        layer = tf.keras.layers.Dense(1, dtype="float64")
    ```

    ## Why it happens
    TPUs have no units for double precision. Operations in float64 are refused, or emulated and slow.

    ## How we know
    In a file that creates a TPU strategy, a tensor, a variable or a layer gets the type float64.

    ## What to do
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    with strategy.scope():
        layer = tf.keras.layers.Dense(1)
    ```

    ## When this is wrong
    When the value stays on the host, as in a pipeline that turns it into float32 later.
    """
    tf = distributed(seen)
    files = dict.fromkeys(each.origin.source for each in tf.known.calls(*TPU))
    for each in (call for path in files for call in tf.known.in_path(path)):
        if not _makes_tensors(tf, each):
            continue
        wide = next((argument.value for argument in each.fact.arguments if _is_wide(each, argument)), None)
        if wide is not None:
            yield Found(
                title="float64 is used in a program for a TPU",
                because=f"`{wide.text}` in {short(each.fact.name)}: TPUs do not compute in double precision",
                evidence=(at_line(each, wide.line),),
                fixes=(Fix(do="use float32, or bfloat16", safety=Safety.CHANGES_RESULTS),),
            )
