# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, DeviceShared, WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import ShapeMismatch
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination, VersionConflict
from keepstep.core.facts.network import AddressMap, ConnectFailed, PeerAwaited, PeerLost, RendezvousTimeout, Why
from keepstep.core.facts.platform import MemberRestarted, ParameterServerLost
from keepstep.core.facts.process import TaskNamed
from keepstep.core.facts.sync import CollectiveMismatch, GroupShutDown, RanksMissing
from keepstep.core.facts.training import NonFinite
from keepstep.parse.scan.signature import Signature
from keepstep.parse.tools.tensorflow import runtime as tensorflow


def read(line: str) -> list[Fact]:
    """Every fact that the table reads in a line."""
    table: tuple[Signature, ...] = tensorflow.SIGNATURES
    return [fact for each in table if (fact := each.read(line)) is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Initialize GrpcChannelCache for job worker -> {0 -> localhost:2222, 1 -> host-b:2223}",
            AddressMap(job="worker", addresses=("localhost:2222", "host-b:2223")),
        ),
        (
            "E rdma_mgr.cc:119] Connecting to /job:worker/replica:0/task:2: Got OS Error. Retrying (5/5)...",
            ConnectFailed(why=Why.FAILED, peer="/job:worker/replica:0/task:2", peer_rank=2),
        ),
        (
            'W op_kernel.cc] [[Node: a/mul = Mul[T=DT_FLOAT, _device="/job:worker/replica:0/task:3/gpu:2"](a, b)]]',
            TaskNamed(rank=3),
        ),
        ("Additional GRPC error information from remote target /job:worker/replica:0/task:1:", TaskNamed(rank=1)),
        (
            "/include/resources/cpu_resource.h:91 BlockingCallOnce time out.",
            RanksMissing(missing=(), what="another replica in the same step"),
        ),
        (
            "INFO:tensorflow:Waiting for model to be ready.  Ready_for_local_init_op:  None, ready: Variables not initialized: a, b",
            PeerAwaited(peer="the chief, which sets the variables", connected=True),
        ),
        (
            "CreateSession still waiting for response from worker: /job:worker/replica:0/task:1",
            PeerAwaited(peer="/job:worker/replica:0/task:1", peer_rank=1),
        ),
        (
            "Cluster check alive failed, /job:worker/replica:0/task:1 is down, aborting collectives",
            PeerLost(how="health check failed", peer="/job:worker/replica:0/task:1", peer_rank=1),
        ),
        (
            'Your worker job ("/job:worker/replica:0/task:1") was probably restarted.',
            MemberRestarted(member="/job:worker/replica:0/task:1", rank=1),
        ),
        (
            "Unable to find a context_id matching the specified one (871). Perhaps the worker was restarted",
            MemberRestarted(),
        ),
        (
            'Additional GRPC error information from remote target /job:ps/replica:0/task:0:\n:{"created":"@1","grpc_message":"Socket closed","grpc_status":14}',
            ParameterServerLost(member="/job:ps/replica:0/task:0", how="Socket closed"),
        ),
        (
            "Device /job:worker/replica:0/task:1/device:GPU:0 current incarnation doesn't match with one in the group.",
            MemberRestarted(member="/job:worker/replica:0/task:1", rank=1),
        ),
        (
            "InvalidArgumentError: Op type not registered 'NcclAllReduce' in binary running on DESKTOP. Make sure the Op",
            UnsupportedCombination(what="this build of TensorFlow has no NCCL, and operation NcclAllReduce needs it"),
        ),
        (
            "Lower bound check fail for input 1 from node Mkl2Tf/_33 to node scoped_allocator_concat_1_1 input bounds = [0x7f, 0x8f]",
            UnsupportedCombination(what="the scoped allocator and another pass over the graph"),
        ),
        (
            "No OpKernel was registered to support Op 'NcclAllReduce' used by {{node x}}",
            UnsupportedCombination(what="operation NcclAllReduce has no kernel for these devices in this build"),
        ),
        (
            "Cannot assign a device for operation 'a': Could not satisfy explicit device specification '/device:GPU:0' because "
            "no supported kernel for GPU devices is available.",
            UnsupportedCombination(what="an operation that has no kernel for /device:GPU:0"),
        ),
        (
            "Cannot merge devices with incompatible jobs: '/job:worker/task:1' and '/job:ps/task:0'",
            UnsupportedCombination(what="operations that must be on one device were put on different ones"),
        ),
        (
            "Op type not registered 'Foo' in binary running on n1. Make sure the Op and Kernel are registered",
            VersionConflict(component="operation Foo", there="n1"),
        ),
        (
            "Op type not registered 'TFRA>Foo' in binary running on n1. Make sure the Op and Kernel are registered",
            VersionConflict(component="operation TFRA>Foo", there="n1"),
        ),
        (
            "InvalidArgumentError:  var and grad do not have the same shape[2,1536] [512,1536]",
            ShapeMismatch(op="grad", left="[2,1536]", right="[512,1536]"),
        ),
        (
            "An error was raised. This may be due to a preemption in a connected worker or parameter server. The current",
            PeerLost(how="a session with other tasks broke"),
        ),
        ("Session was not ready after waiting 7200 secs.", RendezvousTimeout(where="session of the chief")),
        ("AbortedError: Step 281474 is cancelled", GroupShutDown(how="Step 281474 is cancelled")),
        (
            "UnimplementedError: File system scheme 's3' not implemented (file: 's3://b/x')",
            UnsupportedCombination(what="this build of TensorFlow and the file system s3://"),
        ),
        (
            "AbortedError: All 10 attempts to contact https://storage failed. The last failure: Unavailable",
            ConnectFailed(why=Why.FAILED, peer="https://storage"),
        ),
        ("InvalidArgumentError: Nan in summary histogram for: dense/kernel_0", NonFinite(what="dense/kernel_0")),
        ("CancelledError:  [_Derived_]RecvAsync is cancelled.", GroupShutDown(how="RecvAsync is cancelled")),
        (
            "Inconsistent output shapes, got [64,10], but expected is [128,10].",
            CollectiveMismatch(what="shape", left="[64,10]", right="[128,10]"),
        ),
        (
            "MultiWorkerMirroredStrategy with cluster_spec = {'worker': ['a:1', 'b:1']}, task_type = 'worker', task_id = 1, num_workers = 2, local_devices",
            WorldSeen(size=2, index=1, role="worker", rank=1),
        ),
        (
            "NotFoundError: '__inference__tpu_init_fn_4' is neither a type of a primitive operation nor a name of a "
            "function registered in binary running on n-80f5d4ef-w-0. Make sure the operation or function is registered",
            VersionConflict(component="function __inference__tpu_init_fn_4", there="n-80f5d4ef-w-0"),
        ),
    ],
)
def test_a_message_of_the_tool_gives_its_fact(line: str, expected: Fact) -> None:
    assert expected in read(line)


@pytest.mark.parametrize(
    "line",
    [
        "Using MirroredStrategy with devices ('/job:localhost/replica:0/task:0/device:GPU:0',)",
        "Restoring parameters from model.ckpt-5",
        "W All attempts to get a Google authentication bearer token failed: libcurl code 6 meaning 'Couldn't resolve host name', error details: Could not resolve host: metadata",
    ],
)
def test_a_line_of_a_healthy_run_gives_nothing(line: str) -> None:
    assert read(line) == []


def test_a_session_that_is_not_found_names_the_worker_that_restarted() -> None:
    text = (
        'Session handle is not found: 7f3d2c19. Possibly this worker ("/job:worker/replica:0/task:2") just restarted.'
    )
    assert any(isinstance(fact, MemberRestarted) and fact.rank == 2 for fact in read(text))


def test_tasks_of_a_cluster_that_count_differently_disagree_on_the_world() -> None:
    text = "Device /job:{}/replica:0/task:1/device:CPU:0 is joining a group with size2, but that group has size 3 (group_key=1)"
    conflict = WorldSizeConflict(seen="2", expected="3", what="the devices of a group")
    assert conflict in read(text.format("worker"))
    assert CollectiveMismatch(what="size") in read(text.format("localhost"))


def test_a_parameter_server_that_closed_the_socket_is_lost() -> None:
    text = "Error: From /job:ps/replica:0/task:2:\nSocket closed"
    assert any(isinstance(fact, ParameterServerLost) for fact in read(text))


def test_an_address_with_a_users_name_is_not_one_of_a_cluster() -> None:
    line = "Multi-worker CollectiveAllReduceStrategy with cluster_spec = {'worker': ['me@10.0.0.1:8080', '10.0.0.2:8080']}, task_type"
    assert ClusterSpecInvalid(detail="an address is not HOST:PORT: me@10.0.0.1:8080") in read(line)
    assert read(line.replace("me@", "")) == []


@pytest.mark.parametrize("port", ["0", "100000"])
def test_a_peer_whose_port_nobody_can_have_is_a_fault_of_the_description(port: str) -> None:
    line = f"grpc_channel.cc:215] Initialize GrpcChannelCache for job ps -> {{0 -> localhost:40001, 1 -> ps1:{port}}}"
    said = ClusterSpecInvalid(detail=f"nobody can be reached at the port of ps1:{port}")
    assert said in read(line)
    assert said.__class__ not in {type(each) for each in read(line.replace(f"ps1:{port}", "ps1:2220"))}


def test_a_worker_says_who_it_is_by_the_devices_of_its_session() -> None:
    (said,) = read('device_filters: "/job:worker/task:2/cpu:0"')
    assert isinstance(said, WorldSeen) and (said.index, said.role, said.size) == (2, "worker", None)


@pytest.mark.parametrize(
    "text",
    [
        "Operation was explicitly assigned to /device:GPU:0 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ].",
        "was explicitly assigned to /gpu:1 but available devices are [ /job:localhost/device:CPU:0, /job:localhost/device:XLA_GPU:0 ]",
        "RuntimeError: GPU:0 unknown device.",
    ],
)
def test_a_gpu_that_tensorflow_does_not_know_is_told(text: str) -> None:
    assert [type(fact) for fact in read(text)] == [CudaMismatch]


def test_a_gpu_beyond_those_of_this_machine_is_one_too_many() -> None:
    assert [
        type(fact) for fact in read("RuntimeError: /job:localhost/replica:0/task:0/device:GPU:3 unknown device.")
    ] == [DeviceShared]
    assert [type(fact) for fact in read("RuntimeError: /job:worker/replica:0/task:2/device:GPU:0 unknown device.")] == [
        ClusterSpecInvalid
    ]
