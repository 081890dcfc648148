# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the job writes TensorFlow checkpoints as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    for args in run.args:
        args += ["--save", str(run.work / "ckpt")]


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    written = sorted(run.work.glob("ckpt-*.index"))
    if not written:
        raise Unproven("no checkpoint was written")
    return f"{len(written)} checkpoints were written"
