# SPDX-License-Identifier: Apache-2.0
"""What MPI launchers and Open MPI's crash reports say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.environment import LibraryMissing, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import AddressMisled, ConnectFailed, InterfaceMissing, PeerLost, Why
from keepstep.core.facts.process import FatalSignal, ProcessExited
from keepstep.core.facts.resource import SharedMemoryExhausted
from keepstep.core.facts.sync import CollectiveMismatch
from keepstep.parse.tools.mpi import launchers as table

WORDINGS = [
    (
        "[a:06805] btl: tcp: Match incoming connection from [[27443,1],1] 44.128.0.4 with locally known IP 2.2.2.77 failed (iface 0/4)!",
        AddressMisled,
        {"address": "44.128.0.4"},
    ),
    ("[a:1] btl:tcp: host node2, process [[27443,1],1] UNREACHABLE", ConnectFailed, {"peer": "node2"}),
    ("ssh_exchange_identification: Connection closed by remote host", ConnectFailed, {"why": Why.FAILED}),
    (
        "[n2:46613] [[17593,0],1] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file grpcomm_direct.c at line 355",
        VersionConflict,
        {"certain": False},
    ),
    (
        "bash: line 1: /opt/conda/bin/python: No such file or directory",
        LibraryMissing,
        {"name": "/opt/conda/bin/python"},
    ),
    ("kex_exchange_identification: read: Connection reset by peer", ConnectFailed, {"why": Why.FAILED}),
    ("prterun was unable to reliably start one or more daemons.", ConnectFailed, {"final": True}),
    ('Error: unknown option "--hnp-topo-sig"', VersionConflict, {"component": "Open MPI"}),
    ("Type 'orted --help' for usage.", VersionConflict, {"component": "Open MPI"}),
    ("[host] OPAL ERROR: Unreachable in file pmix2x_client.c at line 112", ConnectFailed, {"final": True}),
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
    (
        "[n4][[9281,1],1][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 10.9.8.0 failed: No route to host (113)",
        AddressMisled,
        {"address": "10.9.8.0"},
    ),
    (
        "[n4][[9281,1],1][btl_tcp_endpoint.c:649:mca_btl_tcp_endpoint_complete_connect] connect() to 10.9.8.1 failed: Connection refused (111)",
        ConnectFailed,
        {"why": Why.REFUSED, "peer": "10.9.8.1"},
    ),
    (
        "[n1][[1,1],0][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier [[2,1],3]",
        AddressMisled,
        {},
    ),
    (
        "[n1][[1,1],0][btl_tcp_frag.c:238:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)",
        PeerLost,
        {"how": "Connection reset by peer"},
    ),
    (
        "PRTE has lost communication with a remote daemon.",
        PeerLost,
        {"how": "a launcher daemon on another node went away"},
    ),
    (
        "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    a\n  Remote host:   b\n",
        ConnectFailed,
        {"peer": "b"},
    ),
    (
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\n  Message:    connect() to 10.0.0.9 failed\n  Error:      No route to host (113)",
        AddressMisled,
        {"address": "10.0.0.9"},
    ),
    ("At least one pair of MPI processes are unable to reach each other for", ConnectFailed, {"why": Why.FAILED}),
    ("No network interfaces were found for out-of-band communications. We require", InterfaceMissing, {}),
    (
        '[mpiexec@a] HYDU_sock_connect (utils/sock/sock.c:145): unable to connect from "a" to "b" (Connection refused)',
        ConnectFailed,
        {"why": Why.REFUSED, "peer": "b"},
    ),
    (
        "Open MPI detected a mismatch in versions between two processes.  This\n  Local Open MPI version: v4.0.2\n  Peer Open MPI version:  v3.1.4",
        VersionConflict,
        {"here": "v4.0.2", "there": "v3.1.4"},
    ),
    ("[n1:64919] OPAL ERROR: Error in file pmix2x_client.c at line 109", VersionConflict, {}),
    ("bash: orted: command not found", LibraryMissing, {"name": "orted"}),
    ("bash: /usr/local/bin/orted: No such file or directory", LibraryMissing, {"name": "orted"}),
    ("root@worker-1.svc: Permission denied (publickey,password).", ConnectFailed, {"peer": "worker-1.svc"}),
    (
        'The application appears to have been direct launched using "srun",\nbut OMPI was not built with SLURM',
        UnsupportedCombination,
        {},
    ),
    ("All nodes which are allocated for this job are already filled.", WorldSizeConflict, {}),
    ("Some of the requested hosts are not included in the current allocation for the", ClusterSpecInvalid, {}),
    ("*** MPI_ERR_TRUNCATE: message truncated", CollectiveMismatch, {}),
    (
        "A system call failed during shared memory initialization that should\nnot have.\n  Error:       No space left on device (errno 28)",
        SharedMemoryExhausted,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "mpirun -np 8 -H localhost:8 python train.py",
        "mpirun -mca btl_tcp_if_exclude docker0 -mca plm_rsh_agent ssh orted",
        "A system call failed during shared memory initialization that should\nnot have.\n  Error:       No such file or directory",
        "open: Permission denied",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
