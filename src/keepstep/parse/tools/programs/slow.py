# SPDX-License-Identifier: Apache-2.0
"""Slowness, as profilers, straggler detectors and benchmarks report it."""

from __future__ import annotations

import re

from keepstep.model.facts.training import DevicesNamed, Slowness
from keepstep.parse.scan.signature import signature

MOSTLY_PERCENT = 60.0
"""The part of a profile that getting batches may not take."""
FAR_APART = 1.4
"""How much faster than the slowest rank the fastest may be."""
SLOW_BUS = 1.0
"""Gigabytes per second: 10 Gbit Ethernet reaches this, and any better network exceeds it."""


def _profiled(match: re.Match[str]) -> Slowness | None:
    percent = float(match["percent"])
    return Slowness(what="input", detail=f"{percent:g}% of the profile") if percent >= MOSTLY_PERCENT else None


def _behind(match: re.Match[str]) -> Slowness | None:
    least, most = float(match["least"]), float(match["most"])
    if least <= 0 or most < FAR_APART * least:
        return None
    return Slowness(what="straggler", detail=f"rank {match['rank']} did {least:g} TFLOPs, the fastest {most:g}")


def _bus(match: re.Match[str]) -> Slowness | None:
    rate = float(match["rate"])
    return Slowness(what="network", detail=f"{rate:g} GB/s on the bus") if 0 < rate < SLOW_BUS else None


def _devices(match: re.Match[str]) -> DevicesNamed | None:
    every, each = int(match["all"]), int(match["each"])
    return DevicesNamed(count=every // each) if each else None


def _mirrored(match: re.Match[str]) -> DevicesNamed:
    return DevicesNamed(count=max(1, match["named"].count("device:")))


def _compared(match: re.Match[str]) -> Slowness | None:
    """Two runs reported in one line: 1 node, 4 GPUs: 608 images/sec; 2 nodes, 8 GPUs: 176 images/sec."""
    told = re.findall(r"(?<!\d)(\d{1,9}) (?:GPU|gpu|CPU|TPU)s?\b[^;\n]{0,60}?images/sec: ?([\d.]+)", match.string)
    runs = sorted((int(devices), float(rate.rstrip(".")) / int(devices)) for devices, rate in told if int(devices))
    if len(runs) > 1 and runs[-1][0] > runs[0][0] and runs[-1][1] < runs[0][1] / 2:
        return Slowness(
            what="network",
            detail=f"{runs[0][1]:.4g} per device on {runs[0][0]} devices, {runs[-1][1]:.4g} on {runs[-1][0]}",
        )
    return None


def _grid(match: re.Match[str]) -> DevicesNamed:
    return DevicesNamed(count=int(match["all"]) * int(match["each"]))


SIGNATURES = (
    # Megatron's detector: MinTFLOPs/Rank: 201.11TF/17 | MaxTFLOPs/Rank: 401.22TF/3
    signature(r"MinTFLOPs/Rank: (?P<least>[\d.]+)TF/(?P<rank>\d+) \| MaxTFLOPs/Rank: (?P<most>[\d.]+)TF", _behind),
    # Lightning's profilers: mean, calls, total, percentage
    signature(
        r"\|\s*(?:\[\w+\]\.)?(?:get_train_batch|train_dataloader_next|train_next)\s*\|[^\n]{0,160}\|\s*(?P<percent>[\d.]+)\s*\|\s*$",
        _profiled,
    ),
    # nccl-tests
    signature(r"# Avg bus bandwidth *: *(?P<rate>[\d.]+)", _bus),
    signature(r"Using MirroredStrategy with devices (?P<named>\([^)\n]{1,4000}\))", _mirrored),
    signature(r"\b(?P<all>\d+) nodes? ?[x*×] ?(?P<each>\d+)\b", _grid),
    signature(r"Batch size: +(?P<all>\d+) global (?P<each>\d+)(?:\.0)? per device", _devices),
    signature(r"images/sec: [^\n]{1,200}images/sec: ", _compared),
)
