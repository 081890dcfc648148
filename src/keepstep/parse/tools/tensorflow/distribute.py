# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: strategies, scopes, TF_CONFIG, cluster specifications, sharding of input."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible, UnevenShards
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.sync import CollectiveMismatch, OutsideScope
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # Groups of collectives
    signature(
        r"Collective Op (?P<what>[^\n]{1,120}?) is assigned to device \S{1,80} with type (?P<left>\w+) and group_key \d+ but that "
        r"group has type (?P<right>\w+)",
        CollectiveMismatch,
    ),
    signature(
        r"Collective Op (?P<what>[^\n]{0,120}?)has group_size (?P<left>\d+) and group_key ?\d+ but that group has size (?P<right>\d+)",
        CollectiveMismatch,
    ),
    # Scope
    signature(
        r"Trying to create optimizer slot variable under the scope for tf\.distribute\.Strategy",
        OutsideScope,
        what="an optimizer's slot variable",
    ),
    signature(
        r"which is different from the scope used for the original variable",
        OutsideScope,
        what="an optimizer's slot variable",
    ),
    signature(
        r"(?P<what>Variable|Layer|Metric|Optimizer|Model) \([^\n]{0,2000}?was not created in the distribution strategy scope",
        OutsideScope,
    ),
    signature(r"(?:not created in|created outside) the distribution strategy scope", OutsideScope),
    signature(
        r"passed to `?model\.compile`? was created inside (?:of )?a different distribution strategy scope",
        OutsideScope,
        what="a metric or optimizer",
    ),
    signature(
        r"created (?:inside|in)(?: of)? a different (?:distribution )?strategy scope",
        OutsideScope,
        what="a metric or optimizer",
    ),
    signature(r"Mixing different tf\.distribute\.Strategy objects", OutsideScope, what="objects of two strategies"),
    signature(r"Mismatching tf\.distribute\.Strategy objects", OutsideScope, what="objects of two strategies"),
    signature(r"Need to be inside \"with strategy\.scope\(\)\"", OutsideScope, what="a call"),
    signature(
        r"(?:must only be passed|expects) a variable created in (?:this|the) ?(?:tf\.distribute\.)?Strategy\.scope",
        OutsideScope,
        what="a variable",
    ),
    signature(r"^ *assert isinstance\(var, values\.DistributedVariable\)", OutsideScope, what="a variable"),
    signature(r"Please create (?:the model|it) under the `strategy\.scope\(\)`", OutsideScope, what="the model"),
    # per-replica values where one value is expected, and the reverse
    signature(
        r"(?P<what>Could not convert from `tf\.VariableAggregation` \S+ to ?`tf\.distribute\.ReduceOp`|A non-DistributedValues value [^\n]{0,60} cannot "
        r"be reduced|Expected value to be mirrored across replicas|Invalid variable (?:aggregation|synchronization) mode: \S+ for variable|"
        r"'NoneType' object has no attribute 'merge_call'|`?TPUVariableMixin\.\w+`? not accessible within a TPU context|TPUEmbedding\w{0,40} should be "
        r"created under TPUStrategy|Inputs to batch_reduce_to must be either all on the host|You are passing a `DistributedValues` to "
        r"`reduce_non_distributed_value`|Cannot convert `input_tensor` to a `PerReplica` object)",
        OutsideScope,
    ),
    signature(r"Shape \S[^\n]{0,60} cannot be sharded (?P<parts>\d+) ways along dimension", BatchNotDivisible),
    signature(
        r"(?:The product of each input partition dim should equal to num_cores_per_replica|`logical_device_id` not in range \(was (?P<seen>\d+), but there are only (?P<expected>\d+))",
        WorldSizeConflict,
        what="cores",
    ),
    signature(r"Method requires being in cross-replica context", OutsideScope, what="a call in replica context"),
    signature(
        r"handle`? is not available outside the replica context or a `?tf\.distribute\.Strategy\.update",
        OutsideScope,
        what="a variable's handle",
    ),
    signature(r"(?P<what>`\w+`) was called in a cross-replica context", OutsideScope),
    signature(
        r"Use `?(?:tf\.distribute\.|DistributionStrategy|Strategy)[\w.]*update\(\)`? to modify a MirroredVariable",
        OutsideScope,
        what="a mirrored variable",
    ),
    signature(r"apply_gradients\(\)`? cannot be called in cross-replica context", OutsideScope, what="apply_gradients"),
    signature(
        r"Trying to access resource (?P<what>\S{1,120}) (?:\(defined[^\n]{0,200}\) )?located in device \S*(?:CPU|GPU):\d+ from device "
        r"(?:\S*TPU:\d+|/job:\S+)",
        OutsideScope,
    ),
    signature(
        r"`?merge_call`? called while defining a new graph or a tf\.function",
        UnsupportedCombination,
        what="merge_call inside a new graph or tf.function",
    ),
    signature(
        r"you are using a PerReplica object while not inside a replica context",
        OutsideScope,
        what="a per-replica value",
    ),
    signature(
        r"DistributedVariable\.(?:handle|numpy\(\)) is (?:not available outside|only available)",
        OutsideScope,
        what="a distributed variable used outside its replica",
    ),
    signature(
        r"Need to be inside `call_for_each_(?:replica|tower)\(\)`|Must not be called inside a `?tf\.distribute\.Strategy`? scope",
        OutsideScope,
        what="a call",
    ),
    signature(r"Replica-local variables may only be assigned in a replica context", OutsideScope, what="an assignment"),
    signature(
        r"You must specify an aggregation method to update a (?:Mirrored|Sync)\w*Variable",
        OutsideScope,
        what="a mirrored variable updated without aggregation",
    ),
    signature(r"SyncOnReadVariable does not support `?assign", OutsideScope, what="an assignment"),
    # Keras and strategies that do not go together
    signature(
        r"you need to pass this dataset to ClusterCoordinator\.create_per_worker_dataset",
        UnsupportedCombination,
        what="a data set of ParameterServerStrategy that is read directly, as Keras 3's fit does",
    ),
    signature(
        r"[Aa]ttempt to convert a value \((?:PerReplica|DistributedVariable|MirroredVariable)",
        UnsupportedCombination,
        what="a per-replica value where one tensor is expected (Keras under this strategy)",
    ),
    signature(
        r"(?:Failed to convert|cannot convert)[^\n]{0,80}PerReplica",
        UnsupportedCombination,
        what="a per-replica value where one tensor is expected (Keras under this strategy)",
    ),
    signature(
        r"distribute\.values\.PerReplica'?>?\)? (?:to a Tensor|is not|object)",
        UnsupportedCombination,
        what="a per-replica value where one tensor is expected (Keras under this strategy)",
    ),
    signature(
        r"unsupported operand type\(s\) for [^\n]{1,20}'PerReplica'",
        UnsupportedCombination,
        what="a per-replica value used as one tensor",
    ),
    signature(
        r"'?PerReplica'? object (?:has no attribute|is not|does not support|cannot)",
        UnsupportedCombination,
        what="a per-replica value used as one tensor",
    ),
    signature(
        r"'?(?:Distributed|Mirrored|Sharded)Variable'? object (?:has no attribute|is not|does not support)",
        UnsupportedCombination,
        what="a distributed variable used as a plain one",
    ),
    signature(
        r"(?:It looks like you are trying to|You are)[^\n]{0,160}(?:ParameterServerStrategy)[^\n]{0,200}(?:not allowed|not supported|missing shape)",
        UnsupportedCombination,
        what="ParameterServerStrategy with this use of variables",
    ),
    signature(
        r"`?(?:tf\.distribute\.)?(?:experimental\.)?ParameterServerStrategy`? must be used with `?tf\.distribute\.experimental\.coordinator",
        UnsupportedCombination,
        what="ParameterServerStrategy without a ClusterCoordinator",
    ),
    signature(
        r"(?:not (?:yet |currently )?(?:supported|implemented|compatible)|does(?: not|n't) (?:yet |currently )?"
        r"support|unsupported)[^\n]{0,160}(?P<what>(?:tf\.distribute|MirroredStrategy|TPUStrategy|"
        r"ParameterServerStrategy|CentralStorageStrategy|CollectiveAllReduceStrategy|[Dd]istribution strategy|tf\.distribute\.Strategy)[\w.]*)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>(?:MirroredStrategy|TPUStrategy|ParameterServerStrategy|CentralStorageStrategy|"
        r"CollectiveAllReduceStrategy|[Dd]istribution strategy)[\w.`]{0,80}(?![\w.`]))[^\n]{0,120}?(?:not (?:yet |currently )?"
        r"(?:supported|implemented|compatible)|does(?: not|n't) (?:yet |currently )?support)",
        UnsupportedCombination,
    ),
    signature(
        r"Must not nest tf\.distribute\.Strategy scopes|Mismatching ReplicaContext|next\(iterator\) should be called from outside of "
        r"replica_fn|You cannot run distribute coordinator in a `worker_fn`",
        OutsideScope,
        what="a call",
    ),
    signature(r"`[\w.]{4,80}` must be called in a (?:cross-)?replica context", OutsideScope, what="a call"),
    signature(
        r"(?P<what>Strategy cannot be deep ?copied in eager mode|Must only deepcopy DistributionStrategy|InputReplicationMode\.\w+ is only "
        r"supported in|(?:DistributedVariable|PerReplica|ShardedVariable) doesn't support \w+|Flattening a PerReplica to components "
        r"is not supported|Cannot update non-float variables with tf\.VariableAggregation\.MEAN|creating distributed tf\.Variable with "
        r"aggregation=MEAN and a non-floating dtype|ON_READ`? (?:variables )?doesn't support|You may be using variable created under "
        r"distribute strategy in TF 1\.x control flows|gather does not support IndexedSlices|Only `tf\.distribute\.experimental\."
        r"ParameterServerStrategy` is supported to work with|Creating variables in `dataset_fn` is not allowed|Converting ShardedVariable "
        r"to tensor|Loading a saved_model containing ShardedVariable|Complete shape not known for [\w/]{0,80}Collective|Unrecognized data type: x=<tensorflow\.python\.distribute\.|ShardedVariable: using Tensor|Iterating over an `AsyncDistributedIterator` is not supported|trying to create a "
        r"variable without specifying `initial_value`|used as an input to scheduled function is not yet supported|Unable to get "
        r"batched dataset from the input dataset|`verbose=1` is not allowed with `ParameterServerStrategy`|`DistributionStrategy` does not "
        r"support inputs of type|You must specify a (?:TF-)?Keras Optimizer V2 when using|Supervisors are incompatible with eager execution)",
        UnsupportedCombination,
    ),
    signature(
        r"Tried to create variable (?P<left>\S{1,120}) with mismatching name on device (?P<right>\S{1,60})",
        CollectiveMismatch,
        what="names of variables",
    ),
    # TF_CONFIG and the cluster specification
    signature(
        r"Error: (?P<detail>(?:Must specify an explicit `(?:job_name|task_index)`|Unexpected task_type(?: to start a server)?: |Unexpected "
        r"coordinator mode: |Local device should have only 'localhost' in the job field|Remote device string must have task specified|"
        r"Could not convert `server_or_cluster_def` to a|`cluster_spec' should be dict|`cluster` must be a dictionary mapping|The tasks "
        r"for job \S{1,60} must be a list|Task address \S{1,80} must be bytes|Invalid hostlist format|Invalid tasks-per-node list format|"
        r"GPU `device_index` on a worker should be consecutive|cluster_resolver and devices cannot be set at the same time|If chief exists "
        r"in the cluster, there must be at most one chief|coordinator name should not be 'worker' or 'ps'|Must provide at least one "
        r"remote_host|`make_master_device_default` is set to True but cannot find master|Should have at least one worker for input "
        r"iterator)[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"To call `multi_gpu_model` with `gpus=(?P<expected>\d+)`, we expect the following devices to be available",
        WorldSizeConflict,
        what="GPUs of this machine",
    ),
    signature(
        r"(?P<what>module '(?:tensorflow\.python|tensorflow_core|keras\.(?:src|engine|utils|api|backend))[\w.]*' has no attribute '\w{1,60}'|"
        r"cannot import name '\w{1,60}' from '(?:tensorflow\.python|tensorflow_core|keras\.(?:src|engine|utils|api|backend))[\w.]*'|"
        r"'\w*(?:Model|Sequential|Functional)' object has no attribute '_(?:in_multi_worker_mode|distribution_strategy|is_graph_network|"
        r"compile_metrics|get_distribution_strategy)')",
        UnsupportedCombination,
    ),
    signature(r"Duplicate keys detected when merging two ClusterSpecs(?P<detail>[^\n]{0,80})", ClusterSpecInvalid),
    signature(
        r"Error: Requested (?P<expected>\d+) tasks but only (?P<seen>\d+) were assigned",
        WorldSizeConflict,
        what="tasks of Slurm",
    ),
    signature(
        r"Error: (?P<what>Requested more GPUs per node than available|Shape does not match the number of devices)",
        WorldSizeConflict,
    ),
    signature(
        r"\"?(?P<detail>(?:\"cluster\"|\"task\"|\"task_type\"|`?task_index`?) is not found in (?:the `task` part of )?TF_CONFIG)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>(?:is not set|must be set|not (?:be )?(?:found|set|specified)|invalid|missing)[^\n]{0,40}TF_CONFIG[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    # a server of grpc+mpi that was not started by mpirun together with the others
    signature(r"(?P<detail>Invalid device name: /job:/(?:replica|task):\d{1,6}[\w/:]{0,60})", ClusterSpecInvalid),
    signature(r"(?P<detail>Failed to convert worker name to MPI index: \S{1,80})", ClusterSpecInvalid),
    signature(r"Error: (?P<detail>[^\n]{0,160}TF_CONFIG[^\n]{0,160})", ClusterSpecInvalid),
    signature(r"json\.loads?\([^\n]{0,60}TF_CONFIG", ClusterSpecInvalid, detail="TF_CONFIG could not be read"),
    signature(r"(?P<detail>Unexpected `?task_type`?:? ['u]\S+)", ClusterSpecInvalid),
    signature(r"(?P<detail>Unrecognized task_type: [^\n]{0,120})", ClusterSpecInvalid),
    signature(r"(?P<detail>`task_type` \S+ not found in cluster_spec)", ClusterSpecInvalid),
    signature(r"(?P<detail>\b\w{1,40} is not a valid task_(?:type|id)[^\n]{0,40})", ClusterSpecInvalid),
    signature(r"(?P<detail>Disallowed task type found in cluster spec)", ClusterSpecInvalid),
    signature(r"(?P<detail>The `task_id` \d+ exceeds the maximum id of \w+)", ClusterSpecInvalid),
    signature(r"(?P<detail>There must be at (?:most|least) one '?(?:chief|evaluator|ps|worker)'?)", ClusterSpecInvalid),
    signature(r"(?P<detail>No `worker`, `chief` or `evaluator` tasks can be found)", ClusterSpecInvalid),
    signature(r"(?P<detail>You must have `chief` or `worker` jobs in the `cluster_spec`)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>When `cluster_spec` is given, you must also specify `task_type` and `task_id`)", ClusterSpecInvalid
    ),
    signature(r"(?P<detail>Cluster spec must be non-empty)", ClusterSpecInvalid),
    signature(r"(?P<detail>There is no id for task_type \S+)", ClusterSpecInvalid),
    signature(r"(?P<detail>No task with index \d+ in job \S+)", ClusterSpecInvalid),
    signature(
        r"(?P<detail>No such job in cluster: \S+|Job \S+ (?:was )?not (?:found|defined) in cluster)", ClusterSpecInvalid
    ),
    signature(r"(?P<detail>(?:Task|Job) \S+ was not defined in (?:job|cluster)[^\n]{0,60})", ClusterSpecInvalid),
    signature(r"(?P<detail>Could not interpret \S+ as a host-port pair)", ClusterSpecInvalid),
    signature(r"(?P<detail>If [\"'`]cluster[\"'`] is set in TF_CONFIG[^\n]{0,120})", ClusterSpecInvalid),
    signature(
        r"(?P<detail>The cluster spec needs to have `ps` jobs|Duplicate job ID in cluster specification: \w+|The ClusterSpec "
        r"names the job and task index to be the same|Failed to assign an index for worker \S+)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<what>Mismatched number of GPUs per worker|All workers should have the same number of GPUs)",
        WorldSizeConflict,
    ),
    signature(
        r"expects every worker to have the same number of replicas[^\n]{0,80}\((?P<seen>\d+)\)[^\n]{0,80}\((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="replicas of each worker",
    ),
    # Input
    signature(
        r"`?global_batch_size`? (?P<batch>\d+)[^\n]{0,40}(?:is )?not divisible by(?:[^\n\d]{0,60}(?P<parts>\d+))?",
        BatchNotDivisible,
    ),
    signature(r"[Gg]lobal batch size must be divisible by the number of[^\n]{0,40}", BatchNotDivisible),
    signature(
        r"The batch size \((?P<batch>\d+)\) could not be sharded evenly across the sync replicas \((?P<parts>\d+)\)",
        BatchNotDivisible,
    ),
    signature(
        r"(?:batch_size|[Bb]atch size)(?:\D{0,30}(?P<batch>\d+))?[^\n]{0,90}?(?:must|should|needs? to|has to|is not|"
        r"not)(?: be)?(?: evenly)? divi(?:sible|ded)[^\n]{0,60}?(?:by|into)[^\n]{0,60}?(?:\(|= ?|: ?| )(?P<parts>\d+)?",
        BatchNotDivisible,
    ),
    signature(
        r"Found an unshardable source dataset[^\n]{0,120}",
        UnevenShards,
        detail="the dataset has no files to shard by (AutoShardPolicy.FILE)",
    ),
    signature(r"Could not apply FILE based sharding: (?P<detail>the dataset only has \d+ file)", UnevenShards),
    signature(
        r"There aren't enough elements in this dataset for each shard(?:[^\n]{0,60}\((?P<detail># elems = \d+, # shards = \d+))?",
        UnevenShards,
    ),
    signature(
        r"[Nn]umber of files[^\n]{0,60}(?:less|fewer|smaller) than[^\n]{0,40}(?:worker|shard|replica|rank)",
        UnevenShards,
        detail="fewer files than workers",
    ),
    signature(
        r"(?P<what>Failed to get CollectiveExecutor from OpKernelContext for Op|CollectiveExecutor is required but not available|CollectiveRegistry::Lookup "
        r"did not find collective implementation(?: \w{1,40})?|During Variant (?:Host|Device)->(?:Host|Device) Copy: non-DMA-copy attempted of tensor "
        r"type: \w+|No unary variant device copy function found for direction|Only TensorFlow native optimizers are supported with DistributionStrategy|"
        r"When using a multi-worker distribution with auto-sharding enabled, the data must be provided as|You need to use this dataset in "
        r"ClusterCoordinator\.create_per_worker_dataset|Cannot enable remote execution as well as collective ops at the moment|When using "
        r"`ParameterServerStrategy`, `x` must be a `DatasetCreator`|must contain compile-time constant values when using XLA compilation|"
        r"No server factory registered for the given ServerDef|The available server factories are: \[)",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>Got an empty `devices` list and unable to recognize any local devices)", CudaMismatch),
    signature(r"Error: (?P<what>[^\n]{0,200}\bonly works with the tf\.Estimator API)", UnsupportedCombination),
    signature(
        r"NotImplementedError: (?P<what>[^\n]{0,120}\b(?:TPUs?|GPUs|replicas?|workers|hosts|[Ss]trategy|strategies)\b[^\n]{0,80}"
        r"not (?:yet |currently )?(?:been )?implemented)",
        UnsupportedCombination,
    ),
)


def _variable_refused(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """Keras 3's optimizer hands its variables to the strategy, which asserts without a message that it owns them."""
    if next(lines, "").strip() == "AssertionError":
        yield OutsideScope(what="the model")


BLOCKS = (block(r"^ *distribution\.extended\.update\($", _variable_refused),)
