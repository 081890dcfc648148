# SPDX-License-Identifier: Apache-2.0
"""The .npz checkpoint to resume from is of a wider model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import good_npz

if TYPE_CHECKING:
    from keepstep.lab.run import Run

WIDTH = 96


def prepare(run: Run) -> None:
    good_npz.write(run, WIDTH)


def proof(run: Run) -> str:
    import numpy as np

    with np.load(run.work / "last.npz") as saved:
        return f"the checkpoint has {saved['w1'].shape[1]} hidden units, the model {good_npz.WIDTH}"
