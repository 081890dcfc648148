# SPDX-License-Identifier: Apache-2.0
"""Healthy TensorFlow runs, some of which look dangerous."""

from __future__ import annotations

from keepstep.lab.scenarios.tensorflow.parts import LEGACY, LONG, fit, mirrored, mwms, ps

SCENARIOS = (
    mwms(
        "tf_healthy_mwms",
        env={"TF_CPP_MIN_LOG_LEVEL": "0"},
        args=("--evaluate", "40"),
        note="A clean run of two workers with all of TF's chatter.",
    ),
    fit(
        "tf_healthy_fit",
        env=LEGACY,
        args=("--early-stop",),
        note="tf_keras fit on two workers, which stops early by its callback.",
    ),
    mirrored("tf_healthy_mirrored", note="Keras 3 fit under MirroredStrategy on four virtual devices."),
    ps("tf_healthy_ps", limit=45, note="A clean parameter server run; worker and ps serve until they are ended."),
    mwms(
        "tf_healthy_records",
        fault="saves_checkpoints",
        args=("--epochs", "4", "--steps", "1000"),
        note="Reads the TFRecords to their end (End of sequence is normal), and writes checkpoints.",
    ),
    mwms(
        "tf_healthy_words",
        fault="harmless_words",
        strike_step=30,
        note="Prints '0 errors', 'nan_to_num enabled' and the like.",
    ),
    mwms(
        "tf_healthy_exception",
        fault="harmless_exception",
        strike_step=30,
        note="An exception is caught, its traceback logged, and training goes on.",
    ),
    mwms("tf_healthy_resume", fault="good_tf_checkpoint", note="Restarts from a checkpoint."),
    mwms(
        "tf_healthy_late",
        fault="late_rank",
        note="Worker 0 starts six seconds after worker 1, which retries until it is there.",
    ),
    mwms(
        "tf_healthy_long_save",
        fault="long_save",
        hang=True,
        strike_ranks=(0,),
        args=LONG,
        note="Looked at while worker 0 writes a checkpoint to slow storage and worker 1 waits.",
    ),
    mwms(
        "tf_healthy_long_evaluation",
        fault="long_evaluation",
        hang=True,
        strike_ranks=(0,),
        strike_step=40,
        args=LONG,
        note="Looked at while worker 0 evaluates for long and worker 1 waits in the collective.",
    ),
    mwms(
        "tf_healthy_compile",
        fault="long_trace",
        hang=True,
        strike_step=40,
        args=LONG,
        note="Looked at while every worker traces a large tf.function.",
    ),
)
