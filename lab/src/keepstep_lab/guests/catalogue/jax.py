# SPDX-License-Identifier: Apache-2.0
"""The guests of JAX and of the libraries on top of it."""

from __future__ import annotations

from keepstep_lab.guests.guest import Guest

TWO = ("bash", "jax_two_processes.sh", "{port}", "python")

GUESTS = (
    Guest(
        name="jax_mesh",
        framework="jax",
        note=(
            "jit over a mesh of both processes' devices, after JAX's multi-process guide; each process has its "
            "place on the command line"
        ),
        files=("jax_mesh.py", "jax_two_processes.sh"),
        command=(*TWO, "jax_mesh.py"),
        as_ranks=("python", "jax_mesh.py"),
        faults=(
            "killed",
            "asleep",
            "exception",
            "never_arrives",
            "wrong_port",
            "wrong_count",
            "same_id",
            "nan_batch",
            "other_shape",
        ),
        quick=True,
    ),
    Guest(
        name="jax_flax_nnx",
        framework="jax",
        note="Flax NNX with Optax, metrics and an evaluation, and Orbax checkpoints every 20 steps",
        files=("flax_nnx.py", "jax_two_processes.sh"),
        command=(*TWO, "flax_nnx.py"),
        as_ranks=("python", "flax_nnx.py"),
        needs=("flax", "optax", "orbax.checkpoint"),
    ),
    Guest(
        name="jax_flax_linen",
        framework="jax",
        note="Flax Linen with a TrainState and Optax; process 0 saves while the other waits at a barrier",
        files=("flax_linen.py", "jax_two_processes.sh"),
        command=(*TWO, "flax_linen.py"),
        as_ranks=("python", "flax_linen.py"),
        needs=("flax", "optax"),
    ),
    Guest(
        name="jax_keras",
        framework="jax",
        note="Keras 3 fit on the JAX backend, data-parallel over the two devices of one process, with ModelCheckpoint",
        files=("keras_jax.py",),
        command=("python", "keras_jax.py"),
        needs=("keras",),
        ranks=1,
    ),
)
