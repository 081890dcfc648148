# SPDX-License-Identifier: Apache-2.0
"""COD227: Python in the pipeline or model of a TPU."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import short
from keepstep.rules.code.tensorflow._tensorflow import distributed, is_for_tpu

_PYTHON = ("tensorflow.py_function", "tensorflow.numpy_function", "tensorflow.py_func", "tensorflow.compat.v1.py_func")


@rule(
    id="COD227",
    cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def tpu_py_function(seen: EvidenceSet) -> Findings:
    """A program for a TPU calls Python from the graph, with `tf.py_function` or `tf.numpy_function`.

    ## What it looks like
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    def load(name):
        return tf.py_function(read, [name], tf.float32)

    dataset = (
        tf.data.Dataset.range(1000).map(load).batch(128, drop_remainder=True)
    )
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## Why it happens
    The graph of a TPU, and with a remote TPU also its input pipeline, runs on another host than the Python program.
    A call back into Python fails there: `No such PyFunc registered`.

    ## How we know
    A file with a TPU strategy, or one that it imports, contains such a call.

    ## What to do
    ```python
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    strategy = tf.distribute.TPUStrategy(resolver)

    def load(name):
        return tf.io.decode_raw(tf.io.read_file(name), tf.float32)

    dataset = (
        tf.data.Dataset.range(1000).map(load).batch(128, drop_remainder=True)
    )
    batches = strategy.experimental_distribute_dataset(dataset)
    ```

    ## When this is wrong
    On a TPU VM, where the pipeline runs in the program's own process, if the call is in the pipeline.
    """
    tf = distributed(seen)
    for each in tf.known.calls(*_PYTHON):
        if is_for_tpu(tf, each):
            yield Found(
                title=f"{short(each.fact.name)} cannot run on a TPU's host",
                because="it calls back into this Python program; the pipeline of a remote TPU runs elsewhere, and a TPU"
                " cannot run Python at all",
                evidence=(each,),
                fixes=(Fix(do="write it with TensorFlow operations, or do it before the data is stored"),),
            )
