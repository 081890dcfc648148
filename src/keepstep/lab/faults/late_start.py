# SPDX-License-Identifier: Apache-2.0
"""One rank prepares its data before it joins the others, for longer than they wait."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstep.lab.run import Run

SECONDS = 30.0
ROUND = 20_000


def change_start(value: Any) -> Any:
    end, done = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        asked = time.monotonic() + 2.0
        while time.monotonic() < asked:
            for number in range(ROUND):
                hashlib.sha256(str(number).encode()).digest()
            done += ROUND
        print(f"hashed {done} of 60000000 documents", flush=True)
    return value


def proof(run: Run) -> str:
    from keepstep.lab.run import Unproven

    rank = run.scenario.struck
    other = 0 if rank else 1
    if not run.status_of(other):
        raise Unproven(f"rank {other} did not give up; its status is {run.status_of(other)}")
    if "step " in run.log_of(rank):
        raise Unproven(f"rank {rank} trained")
    return f"{run.proof_in_log(rank, 'of 60000000 documents')}; rank {other} ended with {run.status_of(other)}"
