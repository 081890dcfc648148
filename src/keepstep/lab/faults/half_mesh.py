# SPDX-License-Identifier: Apache-2.0
"""The script makes its mesh of every second device; the others are never used (JAX)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

RIGHT = "mesh = Mesh(np.array(jax.devices()), "
WRONG = "mesh = Mesh(np.array(jax.devices()[::2]), "


def prepare(run: Run) -> None:
    _script.edit(run, RIGHT, WRONG)


def proof(run: Run) -> str:
    return f"{_script.proof(run, WRONG)}; {run.proof_in_log(0, 'training finished')}"
