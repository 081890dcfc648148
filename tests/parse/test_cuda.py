# SPDX-License-Identifier: Apache-2.0
"""What the CUDA runtime, driver and libraries say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import DeviceShared
from keepstep.core.facts.data import LabelOutOfRange
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.platform import DeviceFault, PeerAccessFault
from keepstep.core.facts.resource import Contention
from keepstep.core.facts.training import NonFinite
from keepstep.parse.tools.cuda import errors as table

WORDINGS = [
    ("  (0) UNIMPLEMENTED:  DNN library is not found.", CudaMismatch, {"fatal": True}),
    ("E cuda_driver.cc:328] failed call to cuInit: UNKNOWN ERROR (303)", CudaMismatch, {"fatal": False}),
    ("node24: Test CUDA failure common.cu:892 'invalid device ordinal'", DeviceShared, {}),
    ("ValueError: local_rank 4 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1", DeviceShared, {"rank": 4}),
    ("RuntimeError: HIP error: invalid device function", CudaMismatch, {"fatal": True}),
    (
        "output: ptxas /tmp/a-gpu145, line 10; fatal   : Unsupported .version 7.4; current version is '7.0'",
        CudaMismatch,
        {"fatal": True},
    ),
    ("CUDA Error (init_hook:src/hooks.c,173): no CUDA-capable device is detected", CudaMismatch, {"fatal": True}),
    ("RuntimeError: No HIP GPUs are available", CudaMismatch, {"fatal": True}),
    ("NCCL WARN Cuda failure 'API call is not supported in the installed CUDA driver'", CudaMismatch, {"fatal": True}),
    ("pod:86:143 [0] init.cc:426 NCCL WARN Cuda failure 'operation not supported'", UnsupportedCombination, {}),
    (
        "RuntimeError: Distributed package doesn't have MPI built in",
        UnsupportedCombination,
        {"what": "the MPI backend, which this build of PyTorch does not have"},
    ),
    ("RuntimeError: CUDA error: invalid resource handle", DeviceFault, {"hardware": False}),
    ("RuntimeError: HIP error: an illegal memory access was encountered", DeviceFault, {"hardware": False}),
    (
        "Cuda failure common.cu:891 'CUDA driver version is insufficient for CUDA runtime version'",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        CudaMismatch,
        {"fatal": True},
    ),
    ("Cuda failure 802 'system not yet initialized'", CudaMismatch, {"fatal": True}),
    ("  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized", CudaMismatch, {"fatal": True}),
    ("AssertionError: Torch not compiled with CUDA enabled", CudaMismatch, {"fatal": True}),
    ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", CudaMismatch, {"fatal": True}),
    ("Failed to initialize NVML: Driver/library version mismatch", CudaMismatch, {"fatal": True}),
    (
        "x.py:52: UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check",
        CudaMismatch,
        {"fatal": False},
    ),
    (
        "Loaded runtime CuDNN library: 7.1.2 but source was compiled with: 7.6.0.",
        CudaMismatch,
        {"fatal": True},
    ),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", Contention, {}),
    ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", Contention, {}),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", DeviceFault, {"hardware": True}),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", DeviceFault, {"hardware": False}),
    (
        "Loss.cu:271: nll: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        LabelOutOfRange,
        {"certain": False},
    ),
    (
        "Indexing.cu:1: k: block: [10,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        LabelOutOfRange,
        {"certain": False},
    ),
    (
        "Loss.cu:94: k: block: [0,0,0], thread: [0,0,0] Assertion `input_val >= zero && input_val <= one` failed.",
        NonFinite,
        {"what": "probabilities"},
    ),
    (
        "THCTensorIndex.cu:378: k: block: [9,0,0], thread: [64,0,0] Assertion `indexAtDim < data.baseSizes[dim]` failed.",
        LabelOutOfRange,
        {"certain": False},
    ),
    (
        "NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
        PeerAccessFault,
        {"fatal": True},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "If you get `CUDA error: invalid device function` errors, the above might be the cause",
        "python: malloc.c:2379: sysmalloc: Assertion `(old_top == initial_top (av))' failed.",
        "failed to allocate 10.92G (11725330944 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "I tensorflow/core/platform/cpu_feature_guard.cc:142] This TensorFlow binary is optimized to use AVX2 FMA",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Outdated cuDNN installation found.",
        "CUDA backend failed to initialize: Unable to load cuDNN. Is it installed? (Set TF_CPP_MIN_LOG_LEVEL=0",
    ],
)
def test_what_jax_says_of_libraries_that_do_not_fit_is_read(text, read):
    assert any(isinstance(fact, CudaMismatch) for fact in read(table, text))


@pytest.mark.parametrize(
    ("text", "fatal"),
    [
        ("InternalError: Internal: failed to enable peer access from 0x7f to 0x7e: CUDA_ERROR_TOO_MANY_PEERS", True),
        (
            "W gpu_device.cc:918] Unable to enable peer access between device ordinals 9 and 8, status: Internal: "
            "failed to enable peer access from 0x8270570 to 0x7ba7860: CUDA_ERROR_TOO_MANY_PEERS",
            False,
        ),
    ],
)
def test_peer_access_that_was_refused_is_fatal_only_where_it_was_raised(text, fatal, read):
    facts = [fact for fact in read(table, text) if isinstance(fact, PeerAccessFault)]
    assert any(fact.fatal for fact in facts) is fatal
