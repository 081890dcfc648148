# SPDX-License-Identifier: Apache-2.0
"""TensorFlow runs whose script, or combination of versions, is at fault."""

from __future__ import annotations

from keepstep.lab.scenario import Scenario
from keepstep.lab.scenarios.tensorflow.parts import LEGACY, fit, mirrored, mwms

SCENARIOS = (
    fit(
        "tf_keras3_fit",
        cause="framework.unsupported_combination",
        quick=True,
        note="Keras 3 fit under MultiWorkerMirroredStrategy: cannot convert a PerReplica value.",
    ),
    Scenario(
        "tf_keras3_ps_fit",
        framework="tensorflow",
        job="tf_ps_fit",
        ranks=3,
        roles=("chief", "worker", "ps"),
        cause="framework.unsupported_combination",
        root_ranks=(0,),
        limit=60,
        note="Keras 3 fit under ParameterServerStrategy.",
    ),
    fit(
        "tf_no_scope",
        cause="sync.variable_outside_strategy_scope",
        fault="no_scope",
        env=LEGACY,
        note="The model was built outside strategy.scope().",
    ),
    mirrored(
        "tf_mirrored_no_scope",
        cause="sync.variable_outside_strategy_scope",
        fault="no_scope",
        note="Keras 3 under MirroredStrategy; the model was built outside strategy.scope().",
    ),
    mwms(
        "tf_assign_in_replica",
        cause="framework.unsupported_combination",
        also_accept=("user.code_exception",),
        fault="assign_in_replica",
        note="Replicas add to an integer variable that is to be averaged over them: ValueError of TensorFlow.",
    ),
    mwms(
        "tf_retracing",
        cause="slow.recompilation",
        fault="retracing",
        args=("--steps", "40"),
        limit=120,
        note="A Python number that changes goes into the tf.function: each step is traced anew.",
    ),
    mwms(
        "tf_big_graph",
        cause="serialization.too_large_or_protobuf",
        fault="big_constant",
        ranks=1,
        root_ranks=(0,),
        note="A tf.function with more than 2 GB of constants.",
    ),
    mwms(
        "tf_width_mismatch",
        cause="data.shape_mismatch",
        also_accept=("sync.collective_mismatch",),
        fault="other_width",
        strike_ranks=(1,),
        args=("--timeout", "10"),
        limit=45,
        note="Worker 1 built a wider model: its collectives have other shapes.",
    ),
    mwms(
        "tf_dtype_mismatch",
        cause="data.dtype_mismatch",
        also_accept=("sync.collective_mismatch",),
        fault="double_precision",
        strike_ranks=(1,),
        args=("--timeout", "10"),
        limit=45,
        note="Worker 1 built its model in double precision.",
    ),
    mwms(
        "tf_skipped_evaluation",
        cause="sync.collective_mismatch",
        also_accept=("data.dtype_mismatch",),
        fault="skipped_evaluation",
        args=("--evaluate", "40"),
        note="Only the chief evaluates; its collective meets one of worker 1's input pipeline, of another type.",
    ),
    mwms(
        "tf_other_version",
        cause="env.version_mismatch_between_nodes",
        also_accept=("user.code_exception",),
        fault="other_version",
        note="Worker 1's host has an older version of a package, which lacks a function.",
        strike_ranks=(1,),
        root_ranks=(1,),
        strike_step=10,
    ),
)
