# SPDX-License-Identifier: Apache-2.0
"""Seldom refusals of TensorFlow's runtime and of Keras, as they word them."""

from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.data import CorruptData, DtypeMismatch, LabelOutOfRange, ShapeMismatch, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination, VersionConflict
from keepstep.core.facts.platform import TpuInitFailed
from keepstep.core.facts.resource import DeviceMemoryExhausted, HostAllocationFailed
from keepstep.core.facts.sync import ForkOrThread, OutsideScope, SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.tools.tensorflow import refusals as tf_refusals
from tests.parse.reading import reader

read = reader(tf_refusals)

REFUSALS: list[tuple[str, type[Fact]]] = [
    ("InvalidArgumentError: At least one prefix checkpoint file must exist, but none existed.", CheckpointUnreadable),
    ("InternalError: Could not restore saved variable: dense/kernel", CheckpointUnreadable),
    (
        'NotFoundError: No server factory registered for the given ServerDef: cluster { job { name: "worker" } }',
        UnsupportedCombination,
    ),
    ("The available server factories are: [ GRPC_SERVER ]", UnsupportedCombination),
    (
        'NotFoundError: No session factory registered for the given session options: {target: "10.1.1.4:2222" config: } '
        "Registered factories are {DIRECT_SESSION, GRPC_SESSION}.",
        ClusterSpecInvalid,
    ),
    ("OutOfRangeError: Read less bytes than requested [Op:RestoreV2]", CheckpointUnreadable),
    (
        "ValueError: Invalid H5 file, expected Group but received <class 'h5py._hl.dataset.Dataset'>",
        CheckpointUnreadable,
    ),
    (
        "OSError: Unable to load model. Filepath is not an hdf5 file (or h5py is not available) or SavedModel.",
        CheckpointUnreadable,
    ),
    ("ValueError: No model config found in the file at <h5py._hl.files.File object at 0x7f>.", CheckpointUnreadable),
    (
        "ValueError: Layer dense_1 weight shape (10, 20) is not compatible with provided weight shape (10, 30).",
        CheckpointMismatch,
    ),
    (
        "ValueError: Optimizer weight shape (10, 20) not compatible with provided weight shape (10, 30)",
        CheckpointMismatch,
    ),
    (
        "ValueError: Optimizer variable adam/dense_kernel has shape (10, 20) not compatible with provided weight shape (3,).",
        CheckpointMismatch,
    ),
    (
        "ValueError: Layer 'dense_1' was never built and thus it doesn't have any variables. However the weights file lists 2 variables for this layer.",
        CheckpointMismatch,
    ),
    (
        "ValueError: You called `set_weights(weights)` on optimizer RMSprop with a  weight list of length 11, but the optimizer was expecting 0 weights.",
        CheckpointMismatch,
    ),
    (
        "RuntimeError: MetaGraphDef associated with tags 'serve' could not be found in SavedModel, with available tags '[]'.",
        CheckpointMismatch,
    ),
    (
        "NotFoundError: Could not apply FILE based sharding: The dataset does not have enough file(s) for the required 8 shards/workers.",
        UnevenShards,
    ),
    (
        "InvalidArgumentError: Unable to shard this input. You may need to wrap the inputs to your reader dataset in a TensorSliceDataset.",
        UnevenShards,
    ),
    (
        "AlreadyExistsError: There appears to be a concurrent caching iterator running - cache lockfile already exists ('/data/cache_0.lockfile').",
        SharedStateRace,
    ),
    ("RuntimeError: Your generator is NOT thread-safe. Keras requires a thread-safe generator", ForkOrThread),
    ("InvalidArgumentError: Field 3 is required but missing in record 17!", CorruptData),
    (
        "InvalidArgumentError: Input to DecodeRaw has length 3071 that is not a multiple of 4, the size of float",
        CorruptData,
    ),
    ("InvalidArgumentError: Trying to decode JPEG format using wrong op. Use `decode_jpeg` instead.", CorruptData),
    ("ValueError: Problem inferring types: CSV row 4 has 3 number of fields. Expected: 5.", CorruptData),
    ("InvalidArgumentError: No label may be greater than num_classes. ", LabelOutOfRange),
    ("InvalidArgumentError: All labels must be nonnegative integers, batch: 3 labels: -1,2", LabelOutOfRange),
    ("ValueError: Shapes (None, 1) and (None, 10) are not compatible", ShapeMismatch),
    ("ValueError: Dimensions 3 and 10 are not compatible", ShapeMismatch),
    (
        "ValueError: A target array with shape (32, 10) was passed for an output of shape (None, 1) while using as loss `mse`.",
        ShapeMismatch,
    ),
    ("ValueError: Tensor x:0 must have rank 2.  Received rank 3, shape (2, 3, 4)", ShapeMismatch),
    ("ValueError: Expected scalar shape, saw shape: (3,).", ShapeMismatch),
    (
        "ValueError: The padded shape (10,) is not compatible with the shape (2, 10) of the corresponding input component.",
        ShapeMismatch,
    ),
    (
        "ValueError: The convolution operation resulted in an empty output. Output shape: (None, 0, 5). This can happen",
        ShapeMismatch,
    ),
    ("ValueError: y_true and y_pred have different structures.", ShapeMismatch),
    (
        "TypeError: `generator` yielded an element of type int32 where an element of type float32 was expected.",
        DtypeMismatch,
    ),
    (
        "ValueError: Incompatible type conversion requested to type 'float32' for variable of type 'int64'",
        DtypeMismatch,
    ),
    (
        "ValueError: Incompatible type conversion requested to type 'float32' for AutoCastVariable which is casted to type 'float16'",
        DtypeMismatch,
    ),
    (
        "TypeError: Value passed to parameter 'indices' has DataType float32 not in list of allowed values: int32, int64",
        DtypeMismatch,
    ),
    (
        "F tensor_shape.cc:44] Check failed: NDIMS == dims() (1 vs. 2)Asking for tensor of 1 dimensions from a tensor of 2 dimensions",
        ShapeMismatch,
    ),
    ("F tensor.h:770] Check failed: 1 == NumElements() (1 vs. 32)Must have a one element tensor", ShapeMismatch),
    ("F tensor.cc:681] Check failed: dtype() == expected_dtype (1 vs. 2) double expected, got float", DtypeMismatch),
    ("ResourceExhaustedError: Ran out of GPU memory when allocating 1073741824 bytes for ", DeviceMemoryExhausted),
    ("InternalError: failed to create cublas handle: the resource allocation failed", DeviceMemoryExhausted),
    (
        "InternalError: Attempting to perform BLAS operation using StreamExecutor without BLAS support",
        DeviceMemoryExhausted,
    ),
    ("ResourceExhaustedError: Failed to allocate memory for the batch of component 0", HostAllocationFailed),
    ("InternalError: No DNN in stream executor.", CudaMismatch),
    (
        "InvalidArgumentError: worker:5 not found. It's probably invalid. The valid form is /job:xxx/replica:0/task:N",
        ClusterSpecInvalid,
    ),
    (
        "InternalError: Dispatcher's worker address 10.0.0.3:5050 does not match worker's address 10.0.0.4:5050.",
        ClusterSpecInvalid,
    ),
    ('InvalidArgumentError: Could not parse port for local server from "worker0".', ClusterSpecInvalid),
    ("RuntimeError: Requested 4 tasks but only 2 were assigned.", WorldSizeConflict),
    ("ValueError: length of devices (4) must be equal to total size of the mesh of shape [2, 4]", WorldSizeConflict),
    (
        "ValueError: The tf.data service is running an earlier version of TensorFlow that requires specifying `element_spec`",
        VersionConflict,
    ),
    (
        "NotFoundError: No registered 'ConfigureDistributedTPU' OpKernel for 'CPU' devices compatible with node",
        TpuInitFailed,
    ),
    (
        "InvalidArgumentError: Cannot assign a device for operation ConfigureDistributedTPU: node was explicitly assigned",
        TpuInitFailed,
    ),
    (
        "RuntimeError: apply_gradients is not valid when TPUEmbedding object is not created under a TPUStrategy.",
        OutsideScope,
    ),
    (
        "InternalError: CollectiveRegistry::Lookup did not find collective implementation NcclReduce",
        UnsupportedCombination,
    ),
    (
        "InvalidArgumentError: During Variant Host->Device Copy: non-DMA-copy attempted of tensor type: string",
        UnsupportedCombination,
    ),
    ("TypeError: When using `ParameterServerStrategy`, `x` must be a `DatasetCreator`.", UnsupportedCombination),
]


@pytest.mark.parametrize(("text", "fact"), REFUSALS)
def test_a_refusal_is_read_as_what_it_refuses(text: str, fact: type[Fact]) -> None:
    assert [type(each) for each in read(text)] == [fact]


@pytest.mark.parametrize(
    "text",
    [
        "W auto_shard.cc:461] AUTO sharding policy will apply DATA sharding policy as it failed to apply FILE sharding policy because of the "
        "following reason: Could not apply FILE based sharding: The dataset does not have enough file(s) for the required 2 shards/workers.",
        "W stream.cc:254] Attempting to perform BLAS operation using StreamExecutor without BLAS support",
        "Restored /ckpt/model-100 with 12 ops [Op:RestoreV2]",
        "ValueError: None values not supported.",
        "2 tasks but only one log",
        "NotFoundError: No registered 'NcclAllReduce' OpKernel for CPU devices compatible with node",
    ],
)
def test_what_healthy_logs_say_too_is_no_refusal(text: str) -> None:
    assert read(text) == []
