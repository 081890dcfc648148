# SPDX-License-Identifier: Apache-2.0
"""UCX's crash report, and its errors."""

from __future__ import annotations

import pytest

from keepstep.core.facts.network import ConnectFailed, RdmaTrouble, Why
from keepstep.core.facts.process import FatalSignal
from keepstep.core.facts.resource import LimitReached, SharedMemoryExhausted
from keepstep.parse.tools.network import ucx as table

WORDINGS = [
    (
        "[1700000000.1] [n:1:0]  sock.c:325 UCX  ERROR   connect(fd=34, dest_addr=10.0.0.1:44) failed: Connection refused",
        ConnectFailed,
        {"why": Why.REFUSED, "peer": "10.0.0.1:44"},
    ),
    (
        "[n:1:0]  mm_posix.c:206  UCX  ERROR Not enough memory to write total of 4292720 bytes. Please check that /dev/shm",
        SharedMemoryExhausted,
        {"size": "4292720"},
    ),
    (
        "[n:1:0] sys.c:500 UCX  ERROR shmget(size=2097152 flags=0xfb0) for mm_recv_desc failed: Operation not permitted",
        SharedMemoryExhausted,
        {},
    ),
    (
        "[n:1:0] sock.c:46 UCX  ERROR socket create failed: the maximal number of files that could be opened simultaneously",
        LimitReached,
        {"limit": "open files"},
    ),
    ("[n:1:0] rc_iface.c:966  UCX  ERROR failed to create qp: Invalid argument", RdmaTrouble, {}),
    (
        "[n:1:0]  ib_iface.c:623  UCX  ERROR iface=0x2535490: failed to create UD QP TX wr:256 sge:2: Invalid argument",
        RdmaTrouble,
        {},
    ),
    (
        "[n:1:0] ib_device.c:1332 UCX  ERROR ibv_create_ah(dlid=49152 sl=0) for RC DEVX QP connect on mlx5_0 failed: Connection timed out",
        RdmaTrouble,
        {},
    ),
    (
        "[cn:2:0]      ib_mlx5_dv.c:430  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed on mlx5_0, syndrome 0x2c4154: Remote I/O error",
        RdmaTrouble,
        {},
    ),
    (
        "[host:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)\n==== backtrace (tid:   3095) ====\n 5 0x00000000000489b1 ???()  /usr/lib/libnccl.so.2:0\n=====",
        FatalSignal,
        {"signal": "SIGBUS", "pid": 3039, "library": "libnccl.so.2"},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "Caught signal SIGHUP on host: this job is preempted.",
        "[n:1:0]  ucp_context.c:1082 UCX  WARN  network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp)",
        "[n:1:0] ib_device.c:487  UCX  DEBUG mlx5_0: vendor_id 0x15b3 device_id 4123",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
