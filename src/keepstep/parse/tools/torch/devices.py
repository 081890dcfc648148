# SPDX-License-Identifier: Apache-2.0
"""PyTorch: devices it does not see, was not built for, or does not know by that name."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, DeviceShared
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"(?P<detail>HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES)", ClusterSpecInvalid),
    signature(
        r"(?P<what>FSDP needs a non-CPU accelerator device, but no accelerator device is detected"
        r"|no accelerator support is found from the current compilation|does not match the current compilation's accelerator support"
        r"|libcudart functions unavailable|cudaGetErrorString symbol not found|PyTorch was compiled without CUDA support|torch\.cuda\.Stream requires CUDA support)",
        CudaMismatch,
    ),
    signature(r"Invalid device string: ['\"](?P<device>(?:cuda|npu|xpu|hip):(?:None|-\d+|\$\w+)?)['\"]", DeviceShared),
    signature(r"(?P<what>Cannot copy out of meta tensor; no data!)", UnsupportedCombination),
)
