# SPDX-License-Identifier: Apache-2.0
"""Refusals and losses of TensorFlow, JAX, torch_xla, Horovod and MPI jobs, as read with all tables."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible
from keepstep.core.facts.environment import CudaMismatch
from keepstep.core.facts.network import ConnectFailed, PeerLost, RendezvousTimeout
from keepstep.core.facts.process import NativeFrameSeen, ProcessExited
from keepstep.core.facts.sync import OutsideScope
from keepstep.parse.scan.knowledge import tables

SIGNATURES, _, LAST = tables()


def kinds(text: str) -> set[type]:
    return {type(fact) for each in (*SIGNATURES, *LAST) if (fact := each.read(text)) is not None}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "ValueError: Could not convert from `tf.VariableAggregation` VariableAggregation.NONE to`tf.distribute.ReduceOp` type",
            OutsideScope,
        ),
        ("AttributeError: 'NoneType' object has no attribute 'merge_call'", OutsideScope),
        ("TypeError: Expected value to be mirrored across replicas: a in b.", OutsideScope),
        ("ValueError: Shape (6, 128) cannot be sharded 8 ways along dimension 0", BatchNotDivisible),
        (
            "ValueError: `logical_device_id` not in range (was 4, but there are only 2 logical devices per replica).",
            WorldSizeConflict,
        ),
        ("IndivisibleError: array axis 0 is partitioned 2 times, but the dimension size is 1", BatchNotDivisible),
        (
            "NotImplementedError: Failed to find assignment for logical_axis_index 1 of size 3 with remaining assignable mesh [2, 2]",
            WorldSizeConflict,
        ),
        (
            'RuntimeError: To enable automatic bootstrap in a K8s cluster, jobs must be indexed by setting `completionMode: "Indexed"`.',
            ClusterSpecInvalid,
        ),
        (
            "ValueError: Device TFRT_CPU_0 does not have attribute slice_index. See `process_is_granule` option.",
            ClusterSpecInvalid,
        ),
        ("RuntimeError: expected HOSTNAME env variable to be defined", RankVariableMissing),
        (
            "RuntimeError: Backend 'cuda' failed to initialize: INTERNAL: no supported devices found. Available backends are ['cpu']",
            CudaMismatch,
        ),
        (
            "RET_CHECK failure (xla/service/hlo_verifier.cc:402) In kCrossReplica mode, replica groups should contain 8 replicas, but found 2: %all-gather",
            WorldSizeConflict,
        ),
        (
            "RuntimeError: mesh_service.cc:172 : Check failed: impl_->channel->WaitForConnected( std::chrono::system_clock::now()",
            PeerLost,
        ),
        ("  what():  [horovod/common/gloo/http_store.cc:53] Wait timeout for key(s): 0", RendezvousTimeout),
        ("ValueError: Process number should not be larger than total available slots.", WorldSizeConflict),
        ("mpi4py.MPI.Exception: MPI_ERR_RANK: invalid rank", WorldSizeConflict),
        ("SIGKILL", ProcessExited),
        ("    @     0x7fa3d072f46c do_rallocx", NativeFrameSeen),
        (
            "[node-04:79058] [ 4] /opt/lib/openmpi/mca_pml_ob1.so(mca_pml_ob1_send+0x112d)[0x7f5dcfe3557d]",
            NativeFrameSeen,
        ),
    ],
)
def test_the_wording_is_read(text, kind):
    assert kind in kinds(text)


def test_a_session_that_finds_no_peer_at_its_start_did_not_lose_one():
    found = kinds(
        "2018-06-08 05:55:09.075000: E tensorflow/core/distributed_runtime/master.cc:269] Master init: Unavailable: OS Error"
    )
    assert ConnectFailed in found
    assert PeerLost not in found


@pytest.mark.parametrize(
    "text",
    [
        "sharding the embedding 8 ways along dimension 0",
        "Backend 'cuda' initialized with 8 devices",
        "sending SIGKILL to nobody",
        "mail to user@0x7fa3d0.example",
        "INFO: all replica groups contain 8 replicas",
    ],
)
def test_a_line_of_a_healthy_run_gives_none_of_these(text):
    assert not kinds(text) & {
        OutsideScope,
        BatchNotDivisible,
        WorldSizeConflict,
        CudaMismatch,
        NativeFrameSeen,
        ProcessExited,
    }
