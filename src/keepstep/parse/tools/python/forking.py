# SPDX-License-Identifier: Apache-2.0
"""What CUDA, Open MPI, LMDB and Python itself say about a fork after they have started."""

from __future__ import annotations

from keepstep.model.facts.sync import ForkOrThread
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?:Failed setting context|could not synchronize on CUDA context|failed to (?:create|enqueue|allocate)[^\n]{0,60}): "
        r"CUDA_ERROR_NOT_INITIALIZED",
        ForkOrThread,
        what="CUDA used in a forked process",
    ),
    signature(
        r"CUDA runtime implicit initialization on GPU:\d+ failed\. Status: initialization error",
        ForkOrThread,
        what="CUDA used in a forked process",
    ),
    signature(
        r"An attempt has been made to start a new process before the\s+current process has finished its bootstrapping",
        ForkOrThread,
        what="a child process was started while its parent still imports the main module",
    ),
    signature(
        r"fork\(\) called from a process already using GNU OpenMP, this is unsafe",
        ForkOrThread,
        what="a fork after GNU OpenMP had started its threads (numba)",
    ),
    signature(r"MDB_BAD_RSLOT", ForkOrThread, what="an LMDB environment was opened before the fork or twice"),
    signature(
        r"involving a call to the \"fork\(\)\" system call to create a child process",
        ForkOrThread,
        what="fork after MPI started",
        fatal=False,
    ),
)
