# SPDX-License-Identifier: Apache-2.0
"""Slowness, in the words of profilers, straggler detectors and benchmarks."""

from __future__ import annotations

from keepstep.core.facts.training import Slowness, Throughput
from keepstep.parse.signature import signature

SIGNATURES = (
    # TensorFlow's and XLA's profiler, capture_tpu_profile
    signature(
        r"Your program is (?:HIGHLY|MODERATELY) input-bound because (?P<detail>[\d.]+% of the total step time)",
        Slowness,
        what="input",
    ),
    signature(
        r"Your program is (?:HIGHLY|MODERATELY) (?:communication|collective)-bound because (?P<detail>[\d.]+% of[^\n]{0,40})",
        Slowness,
        what="network",
    ),
    # straggler detectors: NVIDIA's resiliency extension, Megatron, MegaScale
    signature(
        r"(?P<detail>Some GPUs have worse relative performance\. Affected ranks: [^\n]{0,60})",
        Slowness,
        what="straggler",
    ),
    signature(r"(?P<detail>Some GPUs performance dropped\. Affected ranks: [^\n]{0,60})", Slowness, what="straggler"),
    signature(
        r"(?P<detail>(?:STRAGGLER DETECT\w*|[Ss]tragglers? detected)[^\n]{0,120}rank[^\n]{0,40})",
        Slowness,
        what="straggler",
        anchors=("STRAGGLER DETECT", "traggler detected", "tragglers detected"),
    ),
    # Horovod's benchmarks: the whole rate over a number of devices
    signature(
        r"Total (?:img|images|imgs|samples|sentences|tokens)/sec on (?P<devices>\d+) \w+\(s\): (?P<rate>[\d.]+)",
        Throughput,
        anchors=("/sec on ",),
    ),
)
