# SPDX-License-Identifier: Apache-2.0
"""What MPICH, Intel MPI and Cray MPICH say in their error stacks."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid
from keepstep.core.facts.environment import LibraryMissing
from keepstep.core.facts.network import PeerLost, RdmaTrouble
from keepstep.core.facts.process import ExceptionRaised, NativeAbort, ProcessExited
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.tools.mpi import mpich as table

WORDINGS = [
    (
        "[proxy:0:0@n1] HYDU_create_process (utils/launch/launch.c:74): execvp error on file ./train.py (Permission denied)",
        LibraryMissing,
        {"name": "./train.py"},
    ),
    (
        "Abort(1090959) on node 2 (rank 2 in comm 0): Fatal error in PMPI_Init_thread: Other MPI error, error stack:",
        ProcessExited,
        {"rank": 2},
    ),
    (
        "MPIDI_OFI_mpi_init_hook(1944): OFI addrinfo() failed (ofi_init.c:1944:MPIDI_OFI_mpi_init_hook:No data available)",
        RdmaTrouble,
        {},
    ),
    (
        "OFI poll failed (ofi_events.c:1060:MPIDI_OFI_handle_cq_error:Transport endpoint is not connected)",
        PeerLost,
        {},
    ),
    ("MPIDI_OFI_mpi_init_hook(1473):", RdmaTrouble, {}),
    (
        "message sizes do not match across processes in the collective routine: Received 4 but expected 8",
        CollectiveMismatch,
        {"left": "4", "right": "8"},
    ),
    ("dequeue_and_set_error(888): Communication error with rank 3", PeerLost, {"peer_rank": 3}),
    ("system msg for write_line failure : Bad file descriptor", PeerLost, {"how": "Bad file descriptor"}),
    (
        "MPIDI_CRAY_init(385): GPU_SUPPORT_ENABLED is requested, but GTL library is not linked",
        LibraryMissing,
        {},
    ),
    ("MPIR_pmi_init(146): PMI_Init returned 1", ClusterSpecInvalid, {}),
    (
        "*** The MPI_Barrier() function was called before MPI_INIT was invoked.",
        ExceptionRaised,
        {"message": "MPI_Barrier was called before MPI_INIT"},
    ),
    (
        "Assertion failed in file src/mpid/ch4/src/init_comm.c at line 72: in_use == 0",
        NativeAbort,
        {"where": "src/mpid/ch4/src/init_comm.c"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize("text", ["Abort (core dumped)", "MPI_Barrier() after MPI_Init()", "OFI is used for transport"])
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
