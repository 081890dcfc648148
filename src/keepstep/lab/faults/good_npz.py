# SPDX-License-Identifier: Apache-2.0
"""Not a fault: a sound .npz checkpoint to resume from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run

WIDTH = 64


def prepare(run: Run) -> None:
    write(run, WIDTH)


def write(run: Run, width: int) -> None:
    """A checkpoint of a model of this width, forevery rank."""
    import numpy as np

    source = np.random.default_rng(3)
    path = run.work / "last.npz"
    w1, w2 = source.normal(size=(32, width)) * 0.2, source.normal(size=(width, 10)) * 0.2
    np.savez(path, w1=w1.astype("f4"), w2=w2.astype("f4"), step=40)
    for args in run.args:
        args += ["--resume", str(path)]


def proof(run: Run) -> str:
    return run.proof_in_log(0, "restored")
