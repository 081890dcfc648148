# SPDX-License-Identifier: Apache-2.0
"""COD231: a cluster resolver in the script names one task for all processes, or none."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._cluster import counts_tasks, mixes_localhost, written
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, distributed

_RESOLVER = "tensorflow.distribute.cluster_resolver."
_SIMPLE, _CONFIG = f"{_RESOLVER}SimpleClusterResolver", f"{_RESOLVER}TFConfigClusterResolver"
_OTHERS = ("'chief'", "'ps'", "'evaluator'")


def _strategy(tf: Distributed, resolver: Call) -> Call | None:
    """The strategy of several workers that gets it."""
    for each in tf.known.in_file(resolver):
        given = each.fact.argument("cluster_resolver", 0) if each.fact.name in MULTI else None
        if given is not None and given.text in (resolver.fact.assigned, resolver.fact.text):
            return each
    return None


def _is_set_later(tf: Distributed, resolver: Call) -> bool:
    names = [f"{resolver.fact.assigned}.{name}" for name in ("task_id", "task_type")]
    return any(each.fact.target in names for each in tf.known.assigned_in_file(resolver))


def _wrong(tf: Distributed, resolver: Call) -> tuple[str, str]:
    """What is wrong with it, as a title, and why."""
    is_simple = resolver.fact.name == _SIMPLE
    kind = resolver.fact.argument("task_type", 2 if is_simple else 0)
    task = resolver.fact.argument("task_id", 3 if is_simple else 1)
    spec = resolver.fact.argument("cluster_spec", 0) if is_simple else None
    text = written(tf, resolver, spec) if spec is not None else ""
    if mixes_localhost(text):
        return "the cluster in the script mixes localhost with other hosts", "localhost is another machine on each host"
    missing = [
        name for name, value in (("task_type", kind), ("task_id", task)) if value is None or value.literal == "None"
    ]
    if is_simple and missing:
        return (
            f"the cluster resolver has no {' and no '.join(missing)}",
            "MultiWorkerMirroredStrategy raises ValueError: it cannot tell which of the workers this process is",
        )
    number = task.literal if task is not None else None
    if number is None or not number.isdecimal() or (kind is not None and kind.literal in _OTHERS):
        return "", ""
    if is_simple and not counts_tasks(text):
        return "", ""
    return f"the cluster resolver says task {number} in every process", (
        f"all processes run this script, and each claims to be worker {number}: the cluster is never complete"
    )


@rule(id="COD231", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def resolver_names_one_task(seen: EvidenceSet) -> Findings:
    """A cluster resolver gives every process the same task, or none.

    ## What it looks like
    ```python
    import tensorflow as tf

    hosts = ["10.0.0.1:2222", "10.0.0.2:2222"]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": hosts}), task_type="worker", task_id=0
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    ```

    ## Why it happens
    Every process runs the same script and so claims to be the same worker: the first waits for the others for ever,
    and the others cannot use its address. Without a task the strategy raises an error.

    ## How we know
    A `MultiWorkerMirroredStrategy` gets the resolver. Its `task_id` is a number in the script while the cluster has
    several hosts, or it has no task, or it mixes `localhost` with other hosts.

    ## What to do
    ```python
    import os
    import tensorflow as tf

    hosts = ["10.0.0.1:2222", "10.0.0.2:2222"]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": hosts}),
        task_type="worker",
        task_id=int(os.environ["SLURM_PROCID"]),
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    ```

    ## When this is wrong
    When each host has a copy of the script of its own.
    """
    tf = distributed(seen)
    for each in tf.known.calls(_SIMPLE, _CONFIG):
        if any(argument.name == "**" for argument in each.fact.arguments) or _is_set_later(tf, each):
            continue
        strategy = _strategy(tf, each)
        title, because = _wrong(tf, each) if strategy is not None else ("", "")
        if title and strategy is not None:
            yield Found(
                title=title,
                because=because,
                evidence=(each, strategy),
                fixes=(Fix(do="take task_type and task_id from the launcher, by environment variables"),),
            )
