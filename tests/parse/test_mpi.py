# SPDX-License-Identifier: Apache-2.0
"""What MPI launchers and Open MPI's crash reports say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.process import FatalSignal, ProcessExited
from keepstep.parse import mpi as table

WORDINGS = [
    (
        "mpirun noticed that process rank 2 with PID 0 on node box exited on signal 11 (Segmentation fault).",
        ProcessExited,
        {"rank": 2, "signal": "SIGSEGV", "node": "box", "first": True},
    ),
    ("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD", ProcessExited, {"rank": 0}),
    (
        "  Process name: [[31877,1],3]\n  Exit code:    1",
        ProcessExited,
        {"rank": 3, "code": 1, "first": True},
    ),
    (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 5032 RUNNING AT node1\n=   EXIT CODE: 139\n",
        ProcessExited,
        {"signal": "SIGSEGV", "pid": 5032, "node": "node1"},
    ),
    (
        "[box:21402] *** Process received signal ***\n[box:21402] Signal: Segmentation fault (11)\n[box:21402] [ 0] /lib/libc.so.6(+0x3efd0)[0x7f1b]\n[box:21402] [ 1] /x/horovod/mpi_lib.so(+0x7a1d0)[0x7f1a]\n[box:21402] *** End of error message ***",
        FatalSignal,
        {"signal": "SIGSEGV", "pid": 21402, "library": "mpi_lib.so"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "mpirun -np 8 -H localhost:8 python train.py",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
