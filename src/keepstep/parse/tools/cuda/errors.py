# SPDX-License-Identifier: Apache-2.0
"""CUDA, cuDNN and cuBLAS errors, as the runtime, the driver, PyTorch, TensorFlow, JAX and NCCL word them."""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.data import LabelOutOfRange
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.platform import DeviceFault, PeerAccessFault
from keepstep.model.facts.training import NonFinite
from keepstep.parse.scan.signature import signature


def _assert(match: re.Match[str]) -> Fact:
    """A device-side assertion; the index checks of losses and embeddings mean a bad label or token."""
    text = match["text"]
    if _INDEX_CHECK.search(text):
        return LabelOutOfRange(certain=False)
    if _PROBABILITY_CHECK.search(text):
        return NonFinite(what="probabilities")
    return DeviceFault(what=f"a device-side assertion failed: {text}", hardware=False)


_INDEX_CHECK = lazy_pattern(
    r"n_classes|num_classes|srcSelectDimSize|srcIndex|idx_dim|index_size|cur_target|\btarget_?val\b|self_dim_size"
    r"|sizes\[i\]|\bindex (?:>=|<) |indexValue|ind >=? ?0|ind <|padding_idx|num_weights|label|vocab|lookup"
    r"|index out of bounds|indexAtDim|baseSizes|dst(?:Add|Copy|Fill)DimSize|linearIndex|\bidx >= ?0|0 <= tmp\d+|class_values|num_embeddings"
)
# invalid probabilities: binary cross entropy, sampling
_PROBABILITY_CHECK = lazy_pattern(
    r"input_val >= zero && input_val <= one|\*input >= 0\.? && \*input <= 1|\bval >= zero|ge\(val, zero\)|cumdist\[size - 1\] > |sum > accZero"
)


_MISMATCH = (
    signature(
        r"The NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)",
        lambda m: CudaMismatch(
            what=f"the driver (CUDA version {m['found']}) is older than this PyTorch needs",
            fatal="UserWarning" not in m.string,
        ),
    ),
    signature(
        r"(?<![\w ()\-])(?P<gpu>[\w ()\-]{3,160}) with CUDA capability sm_(?P<sm>\w+) is not compatible with the current PyTorch",
        lambda m: CudaMismatch(what=f"this PyTorch holds no kernels for sm_{m['sm']}", fatal=False),
    ),
    signature(
        r"Loaded (?:runtime )?Cu[Dd][Nn][Nn] library: (?P<here>[\d.]+)[^\n]{0,30}but source was compiled with:? (?P<there>[\d.]+)",
        lambda m: CudaMismatch(what=f"cuDNN {m['here']} was loaded but {m['there']} was compiled against"),
    ),
    signature(
        r"cuDNN version incompatibility: PyTorch was compiled\s+against \((?P<there>[^)]{1,20})\) but "
        r"(?:linked against|found runtime version) \((?P<here>[^)]{1,20})\)",
        lambda m: CudaMismatch(what=f"cuDNN {m['here']} was loaded but {m['there']} was compiled against"),
    ),
    signature(
        r"The detected CUDA version \((?P<here>[\d.]+)\) mismatches the version that was used to compile",
        lambda m: CudaMismatch(what=f"CUDA {m['here']} is installed but PyTorch was compiled with another"),
    ),
    signature(
        r"Installed CUDA version (?P<here>[\d.]+) does not match the version torch was compiled with (?P<there>[\d.]+)",
        lambda m: CudaMismatch(
            what=f"CUDA {m['here']} is installed but PyTorch was compiled with {m['there']}",
            fatal="Exception" in m.string or "Error" in m.string,
        ),
    ),
    signature(
        r"Found no NVIDIA driver on your system",
        lambda m: CudaMismatch(what="there is no NVIDIA driver on this host", fatal="Warning" not in m.string),
    ),
    signature(
        r"CUDA Driver version found is (?P<here>\d+)\. Minimum requirement is (?P<there>\d+)",
        lambda m: CudaMismatch(what=f"the driver knows CUDA {m['here']}, NCCL needs {m['there']}", fatal=False),
    ),
    signature(
        r"(?:failed call to cuInit|operation cuInit\(0\) failed): (?P<what>CUDA_ERROR_\w+|UNKNOWN ERROR \(-?\d+\))",
        lambda m: CudaMismatch(what=f"the driver could not be initialised: {m['what']}", fatal=False),
    ),
    signature(
        r"CUDA initialization: (?P<what>(?:Unexpected error|CUDA (?:driver|unknown error))[^\n]{0,80})",
        lambda m: CudaMismatch(what=f"CUDA could not be initialised: {m['what']}", fatal="Warning" not in m.string),
    ),
    signature(
        r"Distributed package doesn't have (?P<what>\w+) built in",
        lambda m: UnsupportedCombination(what=f"the {m['what']} backend, which this build of PyTorch does not have"),
    ),
    signature(
        r"(?P<what>Outdated (?:cu\w+|CUPTI|CUDA\w*|NCCL|NVSHMEM)[\w ]{0,20}installation found)",
        lambda m: CudaMismatch(what=f"{m['what']}: JAX was built against a newer one"),
    ),
    signature(
        r"Unable to load (?P<what>cu\w+|CUPTI|CUDA)\. Is it installed\?",
        lambda m: CudaMismatch(what=f"JAX could not load {m['what']}"),
    ),
)


_FAULT = (
    # Multi-process service
    signature(
        r"(?:CUDA|HIP) error: unknown error|CUDA_ERROR_UNKNOWN: unknown error|cuda runtime error \(30\) ?: unknown error",
        lambda m: None if "cuInit" in m.string else DeviceFault(what="unknown CUDA error", hardware=False),
    ),
    signature(
        r"block: ?\[[\d, ]+\], thread: ?\[[\d, ]+\][^\n`]{0,20}[Aa]ssertion [`'](?P<text>[^`\n]{1,300}?)['`] failed",
        _assert,
    ),
    signature(r"Device-side assertion `(?P<text>[^`\n]{1,300}?)' failed", _assert),
)


_PEER = (
    signature(
        r"failed to enable peer access from",
        lambda m: PeerAccessFault(
            what="peer access could not be enabled",
            fatal="Error: " in m.string and "Unable to enable peer access" not in m.string,
        ),
    ),
)


SIGNATURES = _MISMATCH + _FAULT + _PEER
