# SPDX-License-Identifier: Apache-2.0
"""JAX in several processes: ``jax.distributed``, global arrays, clusters that it detects."""

from __future__ import annotations

from keepstep.model.facts.config import (
    AddressIsLocal,
    ClusterSpecInvalid,
    DuplicateMember,
    RankVariableMissing,
    WorldSeen,
    WorldSizeConflict,
)
from keepstep.model.facts.data import BatchNotDivisible, ShapeMismatch, UnevenShards
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.network import NameUnresolved, PortTaken, RendezvousTimeout
from keepstep.model.facts.platform import MemberRestarted, TpuInitFailed
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # who am I
    signature(r"(?P<name>coordinator_address) should be defined", RankVariableMissing),
    signature(r"Number of processes must be defined", RankVariableMissing, name="num_processes"),
    signature(r"The process id of the current process must be defined", RankVariableMissing, name="process_id"),
    signature(
        r"KeyError: '(?P<name>SLURM_(?:NTASKS|PROCID|LOCALID|STEP_NUM_NODES|STEP_NODELIST|JOB_NODELIST|STEP_NUM_TASKS|JOB_ID))'",
        RankVariableMissing,
    ),
    signature(r"KeyError: '(?P<name>OMPI_(?:COMM_WORLD_\w+|MCA_\w+))'", RankVariableMissing),
    signature(r"KeyError: '(?P<name>JAX_(?:COORDINATOR|PROCESS|NUM_PROCESSES)\w*)'", RankVariableMissing),
    signature(r"[Ff]ailed to recognize coordinator address (?P<host>[\w.\-]{3,120})(?! retrying)", NameUnresolved),
    signature(
        r"(?P<detail>process_id and num_processes must be nonnegative, with process_id < num_processes[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>(?:process_id|num_processes) must be a (?:nonnegative|positive) int[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"distributed\.initialize\([^\n]{0,80}?(?P<address>localhost|127\.0\.0\.1)(?::\d+)?['\"], *(?:num_processes=)?(?!1\b)\d+",
        AddressIsLocal,
        certain=False,
    ),
    signature(
        r"(?P<detail>jax\.distributed\.initialize\(\) must be called before any JAX (?:computations|calls)[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>distributed\.initialize should only be called once)", ClusterSpecInvalid),
    signature(
        r"Different local topology for node (?P<member>\d+) (?:already exists|has been set previously)", DuplicateMember
    ),
    signature(r"Aborted connect attempt as there is a request from a newer incarnation", DuplicateMember),
    signature(r"there's a more recent barrier call for [^\n]{0,120}from the same task", DuplicateMember),
    signature(r"Config key \S{0,80}local_topology/\w{1,20}/(?P<member>\d+) already exists", MemberRestarted),
    signature(r"Duplicate node (?:ID|id):? (?P<member>\d+)", DuplicateMember),
    signature(
        r"/task:(?P<member>\d+) unexpectedly tried to connect while it is already connected|Duplicate task registration with task_name=\S{0,60}",
        DuplicateMember,
    ),
    signature(r"(?P<detail>[Uu]nexpected task registered with task(?:_name)?=\S{0,80})", ClusterSpecInvalid),
    signature(r"(?P<where>Connect\(\)) timed out after \S{1,20} with \d+ attempts", RendezvousTimeout),
    signature(
        r"GetKeyValue\(\) timed out with key: \S{0,40}(?P<where>local_topology)/\w{1,20}/(?P<missing>\d+)",
        RendezvousTimeout,
    ),
    signature(
        r"Gloo context initiali[sz]ation failed|Failed to connect context: DEADLINE_EXCEEDED",
        RendezvousTimeout,
        where="Gloo",
    ),
    signature(r"Getting local topologies failed: (?P<where>[^\n]{0,120})", RendezvousTimeout),
    signature(
        r"GetKeyValue\(\) timed out with key: |(?:Blocking)?KeyValueGet(?:\(\))? timed out",
        RendezvousTimeout,
        where="store key",
    ),
    signature(
        r"jax\.distributed\.initialize\([^\n]{0,200}?\bnum_processes ?= ?(?P<size>\d+), ?process_id ?= ?(?P<index>\d+)",
        WorldSeen,
    ),
    signature(
        r"[Nn]umber of devices (?P<seen>\d+) does not match the product of the parallelism (?P<expected>\d+)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"[Nn]umber of devices (?P<seen>\d+) (?:must be >=|must equal|should equal|is not) the product of (?:the )?mesh_?shape (?P<expected>[(\[][\d, ]+[)\]])",
        WorldSizeConflict,
        what="devices of the mesh",
    ),
    signature(
        r"[Nn]umber of devices (?P<seen>\d+) does not match the product of the (?:ICI|DCN|ici|dcn) parallelism (?P<expected>\d+)",
        WorldSizeConflict,
        what="devices of the mesh",
    ),
    signature(
        r"Number of slices (?P<seen>\d+) (?:must equal|does not match|is not) the product of (?:the )?(?:dcn_mesh_shape|DCN parallelism) (?P<expected>[(\[]?[\d, ]+)",
        WorldSizeConflict,
        what="slices",
    ),
    signature(
        r"The number of devices in physical mesh (?P<seen>\([\d, ]+\)) does not match the number of devices in logical mesh (?P<expected>[(\[][\d, ]+)",
        WorldSizeConflict,
        what="devices of the mesh",
    ),
    signature(
        r"Shape does not match the number of devices\. Received: shape=(?P<expected>[(\[][\d, ]+[)\]]); devices\.shape=(?P<seen>\([\d, ]+\))",
        WorldSizeConflict,
        what="devices of the mesh",
    ),
    signature(
        r"requires (?P<expected>\d+) (?:logical devices|replicas|devices), but (?:only )?(?P<seen>\d+) (?:XLA )?(?:devices|replicas) are available",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"(?:Requested|requested) (?P<expected>\d+) replicas but only (?P<seen>\d+) replicas with shape",
        WorldSizeConflict,
        what="replicas",
    ),
    signature(
        r"(?P<detail>create_device_mesh cannot create contiguous submeshes for [^\n]{0,120})", ClusterSpecInvalid
    ),
    signature(
        r"(?P<detail>No default mesh for this configuration: specify config\.model_parallel_submesh explicitly)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Distributed system is not available; please initialize it via `jax\.distributed\.initialize\(\)`)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<detail>Distributed JAX not initialized\.)", ClusterSpecInvalid),
    signature(r"(?P<detail>Getting metadata\['[\w/\-]{1,80}'\] failed for \d+ tries)", ClusterSpecInvalid),
    signature(r"(?P<detail>the target uri is not valid: dns:/{0,3}(?=[\"'\s,}]|$))", ClusterSpecInvalid),
    signature(
        r"Initializing distributed JAX client[^\n]{0,20}|Connecting to JAX distributed service on (?P<role>\S+)",
        WorldSeen,
    ),
    # impossible meshes and clusters
    signature(
        r"Failed to find assignment for logical_axis_index \d+ of size (?P<expected>\d+) with remaining assignable mesh|Constructed mesh contains a \"hole\"|"
        r"Provided devices do not have any local devices",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"(?P<detail>Device \S{1,60} does not have attribute \w+\. See `process_is_granule`|jobs must be indexed by setting `completionMode|Cannot automatically "
        r"initialize distributed workload: pod \S{1,80} does not have a controller)",
        ClusterSpecInvalid,
    ),
    signature(r"(?P<name>coordinator_bind_address) should be defined", RankVariableMissing),
    signature(r"expected (?P<name>HOSTNAME) env variable to be defined", RankVariableMissing),
    signature(
        r"Backend '(?P<what>cuda|gpu|rocm)' (?:failed to initialize|is not in the list of known backends)", CudaMismatch
    ),
    # arrays over processes
    signature(
        r"(?:implies that |IndivisibleError: )(?:array axis \d+ is partitioned|the global size of its dimension \d+ should be divisible by) (?P<parts>\d+)[^\n]{0,120}?(?:dimension size is|it is equal to) (?P<batch>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"was given the sharding of [^\n]{1,1000}?which implies that the global s(?!ize of its dimension \d+ should be divisible by \d)",
        BatchNotDivisible,
    ),
    signature(
        r"batch size (?P<batch>\d+) (?:is not|must be) divisible by (?:the )?(?:number of|num) \w*devices:? ?\(?(?P<parts>\d+)?",
        BatchNotDivisible,
    ),
    signature(
        r"compiling computation that requires (?P<expected>\d+) (?:logical )?(?:devices|replicas), but only (?P<seen>\d+) XLA devices are available",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"axis sizes that are not evenly divisible by the corresponding mesh axis sizes"
        r"|consider changing the mesh axis sizes or else padding the input and adapting",
        BatchNotDivisible,
    ),
    signature(
        r"is incompatible with mesh_shape=[^\n]{0,120}dim_size=(?P<batch>\d+) is not divisible by axis_size=(?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"Cannot (?:divide|split|shard) evenly[^\n]{0,80}?(?P<batch>\d+)?[^\n]{0,60}?(?P<parts>\d+)?", BatchNotDivisible
    ),
    signature(r"Shape \[(?P<batch>[\d, ]+)\] cannot be sharded (?P<parts>\d+) ways along dimension", BatchNotDivisible),
    signature(
        r"Only evenly sharding across devices is currently supported\. Got (?:shape|vocab size) (?P<batch>[^\n]{1,40}?) and (?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(
        r"Invalid host data, each dimension should match either global or process shape", ShapeMismatch, op="host data"
    ),
    signature(
        r"When making an array from single-device arrays the input arrays must have one shard each",
        ShapeMismatch,
        op="make_array",
    ),
    signature(
        r"Expected shard shape (?P<left>\([^)\n]{0,60}\)) doesn't match the single device array shape (?P<right>\([^)\n]{0,60}\))",
        ShapeMismatch,
    ),
    signature(r"(?P<op>pmap) got inconsistent sizes for array axes to be mapped", ShapeMismatch),
    signature(
        r"is only valid for values of rank at least (?P<right>\d+), but was applied to a value of rank (?P<left>\d+)",
        ShapeMismatch,
        op="sharding by axes that the value does not have",
    ),
    # devices that a mesh or a program asks for
    signature(
        r"The number of devices in physical mesh (?P<seen>[^\n]{1,60}?) does not match the number of devices in logical mesh (?P<expected>[\d, ()]{1,40})",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"len\(shards\) = (?P<seen>\d+) must equal len\(devices\) = (?P<expected>\d+)",
        WorldSizeConflict,
        what="shards and devices",
    ),
    signature(
        r"Insufficient devices for \w{1,20} mesh: found (?P<seen>\d+), expected (?P<expected>\d+)",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"Unknown backend:? '?(?:gpu|cuda|rocm)'?(?: requested, but no platforms that are instances of \w+ are present|\. Available backends are)",
        CudaMismatch,
        what="a jaxlib without support for this GPU, or whose CUDA plugin did not load",
    ),
    signature(
        r"Unknown backend:? '?tpu'?(?: requested, but no platforms that are instances of \w+ are present|\. Available backends are)",
        TpuInitFailed,
        what="JAX found no TPU backend",
    ),
    signature(r"NonUniformShardingError: (?P<detail>[^\n]{1,160})", UnevenShards),
    signature(r"(?P<what>sync_global_devices name mismatch[^\n]{0,100})", CollectiveMismatch),
    signature(
        r"AssertionError: (?P<detail>(?!sync_global_devices)[^\n]{1,120}?)\. Expected: [^\n]{1,200}; got: ",
        ReplicasDiffer,
    ),
    signature(r"(?P<detail>[^\n]{0,80}) passed to device_put is not the same on each process", ReplicasDiffer),
    signature(r"(?P<what>[Ff]etching value for `jax\.Array` that spans non-addressable)", UnsupportedCombination),
    signature(r"(?P<what>Multiprocess computations aren't implemented on the \w+ backend)", UnsupportedCombination),
    signature(r"(?P<what>Received incompatible devices for (?:p?jitted|pmapped) computation)", UnsupportedCombination),
    signature(
        r"(?P<what>Closing over jax\.Array that spans non-addressable \(non process local\) devices)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>When passing host local inputs to pjit, devices connected to a single host must form a contiguous subcube)",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>Passing non-trivial shardings for numpy inputs is not allowed)", UnsupportedCombination),
    signature(
        r"(?P<what>Gathering global non-fully-addressable arrays only supports tiled=True)", UnsupportedCombination
    ),
    signature(r"(?P<what>`jax\.make_mesh` does not support multi-slice topologies)", UnsupportedCombination),
    signature(
        r"(?P<what>The following ordered effects are not supported for more than 1 device[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>PartitionId instruction is not supported for SPMD partitioning)", UnsupportedCombination),
    signature(
        r"(?P<what>executable is built for device \S{1,20} of type \"[^\"\n]{1,60}\"; cannot run it on device \S{1,20} of type \"[^\"\n]{1,60}\")",
        UnsupportedCombination,
    ),
    # what XLA says of a replica
    signature(
        r"Execution of replica (?P<rank>\d+) failed: (?!RESOURCE_EXHAUSTED|Resource exhausted)",
        ProcessExited,
        reporter="XLA",
        code=1,
    ),
    # fork
    signature(
        r"Failed to connect to distributed JAX controller: waited too long for some tasks to show up",
        RendezvousTimeout,
        where="the JAX controller",
    ),
    signature(r"GetKeyValue\(\) timed out with key: \S{0,40}(?P<where>global_topology)", RendezvousTimeout),
    signature(r"RuntimeError: (?:(?:UNKNOWN|INTERNAL): )?Failed to start RPC server", PortTaken),
    signature(r"GlobalTopologyProto contains multiple processes with the same process ID", DuplicateMember),
    signature(
        r"Error: Please initialize the (?P<detail>distributed system via `jax\.distributed\.initialize\(\)`)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Either all of or none of the local topologies should explicitly set \w{3,20})", ClusterSpecInvalid
    ),
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
    signature(r"(?P<detail>Unable to compute global_shape due to non-uniform sharding)", UnevenShards),
    signature(
        r"Unable to put to devices shape \((?P<batch>[\d, ]{1,60})\) with local device count (?P<parts>\d+)",
        BatchNotDivisible,
    ),
    signature(r"(?P<detail>Hash mismatch across replicas for shards [^\n]{0,60})", ReplicasDiffer),
    signature(r"(?P<detail>Could not parse coordinator IP address from Open MPI environment)", ClusterSpecInvalid),
)
