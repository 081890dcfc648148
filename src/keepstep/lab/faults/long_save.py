# SPDX-License-Identifier: Apache-2.0
"""Not a fault: the checkpoint's storage is slow, each save takes many seconds of writing."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 10.0
BLOCK = 2 << 20


def prepare(run: Run) -> None:
    for args in run.args:
        args += ["--save", str(run.work / "ckpt")]


def change_save(path: Any) -> Any:
    end = time.monotonic() + SECONDS
    with open(f"{path}.staging", "wb") as staging:
        while time.monotonic() < end:
            staging.write(os.urandom(BLOCK))
            os.fsync(staging.fileno())
            time.sleep(0.05)
            if staging.tell() > 40 * BLOCK:
                staging.seek(0)
    return path


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
