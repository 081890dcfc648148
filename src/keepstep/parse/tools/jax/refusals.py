# SPDX-License-Identifier: Apache-2.0
"""What JAX, its runtime and the libraries on top (Flax, Orbax, T5X, MaxText) refuse in a job of several processes or devices."""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, DuplicateMember, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, DtypeMismatch, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, LibraryMissing, UnsupportedCombination
from keepstep.core.facts.network import PeerLost, PortTaken, RendezvousTimeout
from keepstep.core.facts.platform import TpuInitFailed
from keepstep.core.facts.resource import DeviceMemoryExhausted
from keepstep.core.facts.sync import (
    CollectiveMismatch,
    CollectiveTimeout,
    ForkOrThread,
    GroupShutDown,
    RanksMissing,
    ReplicasDiffer,
)
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.scan.signature import signature

_STATUS = r"Error: [A-Z_]{2,30}: "


def _no_handle(match: re.Match[str]) -> Fact:
    if match["built"] and "alloc" not in match["why"].lower():
        return CudaMismatch(what=f"cu{match['library']} could not start: {match['why'].strip()}")
    return DeviceMemoryExhausted(library=match["library"])


SIGNATURES = (
    # barriers of the coordination service
    signature(
        r"Barrier failed be(?:ca|ac)use a task is in error\. Barrier Id: [^\n]{0,160}?Task: (?P<peer>\S{0,60}?/task:(?P<peer_rank>\d+))",
        PeerLost,
        how="a task is in error",
    ),
    signature(
        r"Barrier failed because a task has disconnected\. Barrier Id: (?P<what>[^\s,]{1,160}), Task: (?:\S{0,60}?/task:)?(?P<missing>\d+)",
        RanksMissing,
    ),
    signature(
        r"Barrier failed because service is shutting down|Barrier requested after coordination service has shut down",
        PeerLost,
        how="the coordination service ended",
        peer="the coordination leader",
        peer_rank=0,
    ),
    signature(
        r"Conflicting tasks specified for the same barrier|A (?:non-participating )?task \([^)\n]{0,80}\) (?:that is not in the cluster )?called the barrier",
        CollectiveMismatch,
        what="the members of a barrier",
    ),
    signature(
        r"(?P<op>Barrier [^\n]{1,160}) failed\. This suggests that the workers are out of sync",
        CollectiveTimeout,
    ),
    # the service itself
    signature(
        rf"{_STATUS}(?P<how>Coordination service (?:has been shut down|is shutting down\. Cancelling|has stopped\. \w{{3,30}}\(\) failed))",
        PeerLost,
        peer="the coordination leader",
        peer_rank=0,
    ),
    signature(
        rf"{_STATUS}(?P<how>Agent must be in CONNECTED state\. It is currently (?:in state: |in )?ERROR|Coordination service agent is already in error state"
        r"|(?:Nccl|Rccl)Communicator (?:already )?(?:aborted|cancelled))",
        GroupShutDown,
    ),
    signature(
        r"Failed to connect to distributed JAX controller: waited too long for some tasks to show up",
        RendezvousTimeout,
        where="the JAX controller",
    ),
    signature(
        r"GetKeyValue\(\) timed out with key: \S{0,40}(?P<where>global_topology)",
        RendezvousTimeout,
    ),
    signature(
        r"RuntimeError: (?:(?:UNKNOWN|INTERNAL): )?Failed to start RPC server",
        PortTaken,
    ),
    signature(r"GlobalTopologyProto contains multiple processes with the same process ID", DuplicateMember),
    signature(
        r"Error: Please initialize the (?P<detail>distributed system via `jax\.distributed\.initialize\(\)`)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<where>Cluster registration) failed with error: ", RendezvousTimeout),
    # it watches the other tasks while they train, and goes on asking when the leader has left
    signature(
        r"WatchTasksAsync failed for task \d+: (?:UNAVAILABLE|CANCELLED|ABORTED|FAILED_PRECONDITION|DEADLINE_EXCEEDED)",
        PeerLost,
        how="the coordination leader does not answer",
        peer="the coordination leader",
        peer_rank=0,
    ),
    signature(
        r"(?<![\w .:/\[\]()-])(?P<op>[\w .:/\[\]()-]{3,300}?) failed to finish in (?:\d+[hms.]{1,3}){1,3}\.?(?:\s|$)",
        CollectiveTimeout,
    ),
    signature(
        r"(?P<what>MPI: Communicator requested from a thread that is not the one MPI was initialized from)",
        ForkOrThread,
    ),
    signature(
        r"(?P<what>GPU clique [^\n]{1,300}? requested from different device groups)",
        CollectiveMismatch,
    ),
    signature(
        r"(?P<detail>Either all of or none of the local topologies should explicitly set \w{3,20})",
        ClusterSpecInvalid,
    ),
    # how many devices
    signature(
        r"pmapped functions must run across all devices, i\.e\. num_replicas \* num_partitions should equal the number of local devices"
        r"|compiling computation that creates (?P<expected>\d+) shards, but (?P<seen>\d+) devices were specified"
        r"|pmapped function requires \d+ local devices to run due to nested pmapped",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Out of range device id in device_assignment: \d+; valid range: \[0, (?P<seen>\d+)\)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Error: (?:DCN parallelism requested but only one slice available|This custom mesh is not valid for (?P<seen>\d+) devices"
        r"|number of partitions on GPU must be a factor or multiple of the number of local devices)",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"Number of devices per slice (?P<seen>\d+) does not match the product of the \w{2,10} parallelism (?P<expected>\d+)"
        r"|Unspecified value unable to be determined with the given \w{2,10} parallelism values"
        r"|Found unspecified values \(-1\) for more than one +\w{2,10} parallelism axis",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"The number of stored checkpoint files \((?P<expected>\d+)\) is incompatible with the number of JAX processes \((?P<seen>\d+)\)"
        r"|(?P<expected_>\d+) processes found in Grain checkpoint directory",
        lambda match: WorldSizeConflict(
            expected=match["expected"] or match["expected_"],
            seen=match["seen"],
            what="processes and those of the checkpoint",
        ),
    ),
    # arrays over several processes
    signature(
        r"Error: (?P<what>device_put's (?:first|second) argument must be a (?:fully addressable array|Device or a Sharding which represents addressable)"
        r"|When the second argument to `device_put` is a Device, the first argument must be a fully addressable array"
        r"|(?:For a cross-host reshard in multi-controller JAX, i|I)nput and target sharding should have the same set of devices)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Please set jax_cross_host_transfer_socket_address|Cannot copy array to non-addressable device|Cross-host transfers are"
        r" currently supported only if every shard requires)",
        UnsupportedCombination,
    ),
    signature(
        r"Device assignment passed to Compile\(\) must have (?P<what>devices of a single kind, got [^\n]{1,120})",
        UnsupportedCombination,
    ),
    signature(r"(?P<detail>Unable to compute global_shape due to non-uniform sharding)", UnevenShards),
    signature(
        r"Unable to put to devices shape \((?P<batch>[\d, ]{1,60})\) with local device count (?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"(?P<detail>No instances assigned to shard \d+/\d+|grain_worker_count \(\d+\) exceeds the number of [^\n]{1,60}? files per host)",
        UnevenShards,
    ),
    signature(r"(?P<detail>Hash mismatch across replicas for shards [^\n]{0,60})", ReplicasDiffer),
    # shapes and types
    signature(
        r"all_to_all requires the size of the mapped axis axis_name to equal x\.shape\[split_axis\], but they are (?P<left>\d+) and (?P<right>\d+)",
        ShapeMismatch,
    ),
    signature(
        r"Incorrect shapes\. Got shape (?P<left>\([^)\n]{0,60}\)) logits and (?P<right>\([^)\n]{0,60}\)) targets",
        ShapeMismatch,
    ),
    signature(
        r"Error: (?:(?P<op>q, k|k, v|q, k, v) (?:batch dims|depths|lengths|num_heads) must match|Inconsistent batch(?:-| axis )sizes: )",
        ShapeMismatch,
    ),
    signature(
        r"Input dtypes (?P<left>[^\n]{1,120}?) have no available implicit dtype promotion path",
        DtypeMismatch,
    ),
    # checkpoints
    signature(
        r"Error (?:opening|reading) [^\n]{1,400}?(?P<detail>Expected \\?\"(?:shape|dtype|chunks)\\?\" of [^\n]{1,80}? but received: [^\n]{1,60})",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Checkpoint and model arrays have different ranks)", CheckpointMismatch),
    signature(
        r"Error: (?P<why>Attempting to restore a TensorFlow checkpoint as a native T5X checkpoint|Found improperly formatted checkpoint directory"
        r"|TrainState was not found or could not be restored|Checkpoint path(?:\(s\)| '[^'\n]{1,300}') must be (?:a )?valid director)",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>(?:DEADLINE_EXCEEDED|UNAVAILABLE): (?:All \d+ retry attempts failed: )?Error (?:writing|reading|opening) [^\n]{1,160})",
        SlowStorage,
    ),
    # libraries and devices
    signature(
        r"RuntimeError: Could not initialize backend '(?:cuda|gpu|rocm)'",
        CudaMismatch,
        what="JAX could not start its GPU backend",
    ),
    signature(
        r"RuntimeError: Could not initialize backend '(?P<what>tpu)'",
        TpuInitFailed,
    ),
    signature(rf"{_STATUS}(?P<what>\S{{1,80}} ptxas too old|ptxas too old)", CudaMismatch),
    signature(
        r"(?P<what>JAX requires ml_dtypes version \S{1,20} or newer; installed version is \S{1,20})",
        UnsupportedCombination,
    ),
    signature(
        r"MPItrampoline: (?:ERROR: The environment variable (?P<name>MPITRAMPOLINE_LIB) is not set|Could not dlopen library \"(?P<file>[^\"\n]{1,200})\")",
        lambda match: LibraryMissing(name=match["name"] or match["file"]),
    ),
    signature(
        r"Error: (?:UNKNOWN|INTERNAL): Failed to determine best cudnn convolution algorithm",
        CudaMismatch,
        what="no algorithm of cuDNN worked on this GPU",
    ),
    # said when a program runs: memory is short; said when one is built, at a library's first use: the library does not fit
    signature(
        r"(?P<built>\bRuntimeError: (?:[\w./]{1,60}:\d+: )?)?operation (?:gpu|cu|hip|roc)(?P<library>solver|blas|sparse|fft|rand)(?:Dn)?Create\(&handle\)"
        r" failed: (?P<why>[^\n]{1,80})",
        _no_handle,
    ),
    signature(
        r"^Out of memory while trying to allocate (?P<requested>[\d.]+ ?(?:bytes|[KMGT]?i?B))",
        DeviceMemoryExhausted,
    ),
    signature(
        r"Failed to (?:update|capture|instantiate) (?:gpu|CUDA) graph[^\n]{0,80}out of memory",
        DeviceMemoryExhausted,
    ),
)
