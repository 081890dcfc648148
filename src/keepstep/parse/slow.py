# SPDX-License-Identifier: Apache-2.0
"""Slowness, in the words of profilers, straggler detectors and training loops that time their own steps."""

from __future__ import annotations

import re

from keepstep.core.facts.training import Slowness, Throughput
from keepstep.parse.signature import signature

MOSTLY = 0.6
"""The part of a step spent on waiting for data from which it is worth a word."""


def _timed(match: re.Match[str]) -> Slowness | None:
    """A step's own timing, where the wait for its batch is most of it."""
    data, whole = float(match["data"]), float(match["whole"])
    if whole < 0.05 or data < MOSTLY * whole or data > 1.5 * whole:
        return None
    return Slowness(what="input", detail=f"{data:g} of {whole:g} s", measured=True)


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
        r"(?P<detail>Some GPUs have worse relative performance\. Affected ranks: [^\n]{0,60})", Slowness, what="straggler"
    ),
    signature(
        r"(?P<detail>Some GPUs performance dropped\. Affected ranks: [^\n]{0,60})", Slowness, what="straggler"
    ),
    signature(
        r"(?P<detail>(?:STRAGGLER DETECT\w*|[Ss]tragglers? detected)[^\n]{0,120}rank[^\n]{0,40})",
        Slowness,
        what="straggler",
        anchors=("STRAGGLER DETECT", "traggler detected", "tragglers detected"),
    ),
    # timings of a step: mmcv and detectron2, torch's examples, open_clip
    signature(
        r"(?<![\w.])time: ?(?P<whole>\d+\.\d+)(?:[^\n]{0,40}?)[, ]+(?:last_data_time|data_time): ?(?P<data>\d+\.\d+)",
        _timed,
        anchors=("data_time:",),
    ),
    signature(
        r"\bTime +(?P<whole>\d+\.\d+) \( *\d+\.\d+\)\s+Data +(?P<data>\d+\.\d+) \( *\d+\.\d+\)",
        _timed,
        anchors=(")\tData ", ")  Data ", ") Data "),
    ),
    signature(r"Data \(t\): (?P<data>\d+\.\d+) Batch \(t\): (?P<whole>\d+\.\d+)", _timed, anchors=("Batch (t): ",)),
    # Horovod's benchmarks: the whole rate over a number of devices
    signature(
        r"Total (?:img|images|imgs|samples|sentences|tokens)/sec on (?P<devices>\d+) \w+\(s\): (?P<rate>[\d.]+)",
        Throughput,
        anchors=("/sec on ",),
    ),
)
