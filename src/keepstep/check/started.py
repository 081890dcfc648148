# SPDX-License-Identifier: Apache-2.0
"""Whether a launcher has started this command several times: only then is it worth waiting for the others.

TF_CONFIG, RANK or JAX's variables alone do not show it: people export them in a shell and then check one machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.core.numbers import whole

COUNTED = {
    "SLURM_STEP_NUM_TASKS": "srun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpirun",
    "MV2_COMM_WORLD_SIZE": "mpirun",
    "HOROVOD_SIZE": "horovodrun",
    "KEEPSTEP_WORLD": "keepstep run",
}
"""Variables that a launcher gives only to what it starts: how many there are."""
NAMED = {"TORCHELASTIC_RUN_ID": "torchrun", "CROSS_SIZE": "deepspeed", "KUBERNETES_SERVICE_HOST": "Kubernetes"}


def started_by(env: Mapping[str, str]) -> str | None:
    """The launcher, or None if this process may be the only one."""
    for name, launcher in COUNTED.items():
        count = env.get(name, "")
        if (whole(count) or 0) > 1:
            return launcher
    return next((launcher for name, launcher in NAMED.items() if env.get(name)), None)
