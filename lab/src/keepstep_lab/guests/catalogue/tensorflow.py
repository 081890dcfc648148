# SPDX-License-Identifier: Apache-2.0
"""The guests of TensorFlow and of Keras on its backend."""

from __future__ import annotations

from keepstep_lab.guests.guest import Guest

CLUSTER = ("python", "tf_cluster.py")

GUESTS = (
    Guest(
        name="tf_keras_fit",
        framework="tensorflow",
        note="tf_keras fit under MultiWorkerMirroredStrategy with BackupAndRestore, as in the multi-worker tutorial",
        files=("tf_keras_fit.py", "tf_cluster.py"),
        command=(*CLUSTER, "tf_keras_fit.py"),
        as_ranks=("python", "tf_keras_fit.py"),
        needs=("tf_keras", "keras"),
        faults=("killed", "exception", "asleep", "stopped", "nan_batch", "other_shape", "keras_3"),
    ),
    Guest(
        name="tf_custom_loop",
        framework="tensorflow",
        note="a custom loop with strategy.run and strategy.reduce, and a CheckpointManager for each worker",
        files=("tf_custom_loop.py", "tf_cluster.py"),
        command=(*CLUSTER, "tf_custom_loop.py"),
        as_ranks=("python", "tf_custom_loop.py"),
        needs=("tf_keras",),
        faults=(
            "killed",
            "exception",
            "asleep",
            "interrupted",
            "nan_batch",
            "other_shape",
            "never_arrives",
            "wrong_port",
            "run_forgotten",
        ),
    ),
    Guest(
        name="tf_parameter_server",
        framework="tensorflow",
        note=(
            "ParameterServerStrategy with a ClusterCoordinator: a chief, two workers and a ps, which the "
            "launcher kills at the end"
        ),
        files=("tf_parameter_server.py", "tf_cluster.py"),
        command=(*CLUSTER, "--chief", "1", "--worker", "2", "--ps", "1", "tf_parameter_server.py"),
        as_ranks=("python", "tf_parameter_server.py"),
        run_options=("-n", "3", "--ps", "1"),
        needs=("tf_keras",),
        ranks=4,
        losses=r"finished epoch \d+",
    ),
    Guest(
        name="tf_keras3_fit",
        framework="tensorflow",
        note="Keras 3 fit in one process",
        files=("keras3_fit.py",),
        command=("python", "keras3_fit.py"),
        needs=("keras",),
        ranks=1,
    ),
    Guest(
        name="tf_mirrored",
        framework="tensorflow",
        note="Keras 3 fit under MirroredStrategy over two logical CPUs",
        files=("keras3_mirrored.py",),
        command=("python", "keras3_mirrored.py"),
        needs=("keras",),
        ranks=1,
    ),
)
