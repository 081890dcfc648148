# SPDX-License-Identifier: Apache-2.0
"""Seldom refusals of TensorFlow's runtime and of Keras, in their own words: what the other tables of TensorFlow do not have.

Gathered by a replay of every message that TensorFlow 2.21 and Keras 3 can raise, and of wordings of TensorFlow 1.
"""

from __future__ import annotations

import re

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.data import CorruptData, DtypeMismatch, LabelOutOfRange, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination, VersionConflict
from keepstep.core.facts.platform import TpuInitFailed
from keepstep.core.facts.resource import DeviceMemoryExhausted, HostAllocationFailed
from keepstep.core.facts.sync import ForkOrThread, OutsideScope, SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.scan.signature import signature

_SHAPE = r"[\[(][^\])\n]{0,80}[\])]"


def _sharded_by_file(match: re.Match[str]) -> Fact | None:
    """Under the policy AUTO it is a warning: shards are then cut by element."""
    return None if "AUTO sharding policy" in match.string else UnevenShards(detail=match["detail"])


SIGNATURES = (
    # Checkpoints and files of weights
    signature(
        r"(?P<why>At least one prefix checkpoint file must exist, but none existed|Invalid checkpoint state loaded from|SavedModel checkpoint "
        r"(?:does not contain object graph|object graph was not the correct type)|Invalid H5 file, expected (?:Group|Dataset)\b|"
        r"Unable to load model\. Filepath is not an hdf5 file|No model (?:config )?found in (?:the file at|config file))",
        CheckpointUnreadable,
    ),
    signature(r"Error: (?P<why>Could not restore saved variable: \S{1,200})", CheckpointUnreadable),
    signature(r"(?P<why>Read (?:less|fewer) bytes than requested)[^\n]{0,160}RestoreV2", CheckpointUnreadable),
    signature(
        rf"(?P<detail>(?:Layer \S{{1,120}} weight|Optimizer weight|Optimizer variable \S{{1,200}} has) shape {_SHAPE} (?:is )?not compatible with "
        rf"provided weight shape {_SHAPE})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Layer '\S{1,200}' was never built and thus it doesn't have any variables\. However the weights file lists \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>on optimizer \S{1,80} with a weight list of length \d+, but the optimizer was expecting \d+ weights)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>MetaGraphDef associated with tags [^\n]{1,80} could not be found in SavedModel)",
        CheckpointMismatch,
    ),
    # Input
    signature(
        r"Could not apply FILE based sharding: (?P<detail>The dataset does not have enough file\(s\) for the required \d*)",
        _sharded_by_file,
    ),
    signature(
        r"(?P<detail>Unable to shard this input\. You may need to wrap the inputs to your reader dataset)",
        _sharded_by_file,
    ),
    signature(
        r"There appears to be a concurrent caching iterator running - cache lockfile already exists \('(?P<path>[^'\n]{1,300})",
        SharedStateRace,
        what="a cache of tf.data that another iterator writes, or that one left behind",
    ),
    signature(r"(?P<what>Your generator is NOT thread-safe)", ForkOrThread),
    signature(
        r"(?P<what>Field \d+ is required but missing in record|Input to DecodeRaw has length \d+ that is not a multiple of \d+|Trying to decode \w+ "
        r"format using (?:a )?wrong op|Problem inferring types: CSV row|Failed when reading the header line of \S{1,300}\. Is it an empty file)",
        CorruptData,
    ),
    signature(
        r"No label may be greater than num_classes|All labels must be nonnegative integers, batch", LabelOutOfRange
    ),
    signature(
        r"(?:The convolution operation resulted in an empty output\. Output shape|Argument `output` must have rank \(ndim\) `target\.ndim - 1`|"
        r"When passing a dataset to a Keras model, the arrays must be at least rank 1|y_true and y_pred have different structures)",
        ShapeMismatch,
        op="a layer or a loss",
    ),
    signature(
        rf"(?:Shapes (?P<left>{_SHAPE}) and (?P<right>{_SHAPE})|Dimensions \d+ and \d+) are not compatible",
        ShapeMismatch,
    ),
    signature(
        rf"A target array with shape (?P<left>{_SHAPE}) was passed for an output of shape (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="a loss",
    ),
    signature(
        r"Tensor (?P<op>\S{1,120}) must have (?P<right>rank (?:at least |in )?[^\n.]{1,40})\.\s+Received (?P<left>rank \d+)",
        ShapeMismatch,
    ),
    signature(
        rf"Error: [^\n]{{0,80}}Expected scalar shape(?: for (?P<op>\S{{1,120}}))?, saw shape: (?P<left>{_SHAPE})",
        ShapeMismatch,
    ),
    signature(
        rf"The padded shape (?P<left>{_SHAPE}) is not compatible with the shape (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="padded batch",
    ),
    signature(
        r"The number of input channels must be evenly divisible by (?:kernel's in_channels|the number of groups)[^\n]{0,120}",
        ShapeMismatch,
        op="convolution",
    ),
    signature(
        r"`generator` yielded an element of type (?P<left>\w+) where an element of type (?P<right>\w+) was expected",
        DtypeMismatch,
    ),
    signature(
        r"Incompatible (?:type|tensor) conversion requested to (?:type|`dtype`) '?(?P<left>\w+)'? for [^\n]{1,160}? (?:of|to|with) d?type '?(?P<right>\w+)",
        DtypeMismatch,
    ),
    signature(
        r"Value passed to parameter '(?:[^'\n]{1,80})' has DataType (?P<left>\w+) not in list of allowed values: (?P<right>[\w, ]{1,120})",
        DtypeMismatch,
    ),
    # checks that end the process
    signature(
        r"Asking for tensor of (?P<right>(?:at (?:least|most) )?\d+ dimensions) from a tensor of (?P<left>\d+ dimensions)",
        ShapeMismatch,
    ),
    signature(r"Check failed: 1 == NumElements\(\) \(1 vs\. (?P<left>\d+)\)", ShapeMismatch, op="a scalar"),
    signature(
        r"Check failed: dtype\(\) == expected_dtype \(\d+ vs\. \d+\) ?(?P<right>\w+) expected, got (?P<left>\w+)",
        DtypeMismatch,
    ),
    # Memory and the GPU
    signature(r"Ran out of GPU memory when allocating (?P<requested>\d+ bytes)", DeviceMemoryExhausted),
    signature(
        r"failed to create cu(?:blas|BLAS) handle: the resource allocation failed",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(
        r"InternalError: +Attempting to perform (?:BLAS|DNN) operation using StreamExecutor without (?:BLAS|DNN) support",
        lambda m: DeviceMemoryExhausted(fatal=False),
    ),
    signature(r"Failed to allocate memory for the batch of component", HostAllocationFailed),
    signature(r"Error: +(?P<what>No DNN in stream executor)", CudaMismatch),
    # The cluster
    signature(
        r"(?P<detail>(?:\S{1,120} )?not found\. It's probably invalid\. The valid form is /job:xxx/replica:0/task:N)",
        ClusterSpecInvalid,
    ),
    # A target without "grpc://" is nobody's
    signature(
        r"(?P<detail>No session factory registered for the given session options: \{target: \\?\"[^\"\\\s]{1,120})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>Dispatcher's worker address \S{1,120} does not match worker's address \S{1,120})",
        ClusterSpecInvalid,
    ),
    signature(r'(?P<detail>Could not parse port for local server from "[^"\n]{0,120})', ClusterSpecInvalid),
    signature(
        r"Error: Requested (?P<expected>\d+) tasks but only (?P<seen>\d+) were assigned",
        WorldSizeConflict,
        what="tasks",
    ),
    signature(
        r"length of devices \((?P<seen>\d+)\) must be equal to total size of the mesh of shape (?P<expected>[^\n]{1,40})",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"The tf\.data service is running an earlier version of TensorFlow that requires",
        VersionConflict,
        component="TensorFlow",
    ),
    # TPU
    signature(
        r"(?P<what>(?:No registered '|Cannot assign a device for operation '?)(?:\S{1,80}/)?(?:Configure|Initialize|WaitFor|Shutdown)\w{0,20}TPU)\w*",
        TpuInitFailed,
    ),
    signature(
        r"(?P<what>\w{1,40}) is not valid when TPUEmbedding object is not created under a TPUStrategy",
        OutsideScope,
    ),
    # What does not go together
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
)
