# SPDX-License-Identifier: Apache-2.0
"""Accelerators that a job asks for, that its processes use, and frameworks that say they run without one."""

from __future__ import annotations

import re

from keepstep.model.facts.accelerators import AcceleratorAsked, AcceleratorUsed, DevicesLeft, OnCpu, RanksPerNode
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.signature import by_hand, signature

_ADVICE = re.compile(r"(?i)\b(?:e\.g\.|for example|try|please|you can|consider|should|usage:|suggest)")
"""A command after one of these is advice, not what was run."""
_DEVICE = tuple(
    f"{verb} {the}{device}"
    for verb in ("sing", "use", "Use", "ing on", "elected")
    for the in ("", "the ")
    for device in ("device", "Device")
)


def _asked(match: re.Match[str]) -> Fact | None:
    if _ADVICE.search(match.string[max(0, match.start() - 200) : match.start()]):
        return None
    count = match.groupdict().get("count")
    return AcceleratorAsked(how=match["how"], per_node=int(count) if count else None)


def _chosen(match: re.Match[str]) -> Fact | None:
    if _ADVICE.search(match.string[max(0, match.start() - 200) : match.start()]):
        return None
    value = match["value"].strip("'\"")
    if value in ("", "-1", "none", "NoDevFiles"):
        return AcceleratorAsked(how=match["how"], wanted=False)
    return AcceleratorAsked(how=match[0], chosen=len(value.split(",")))


SIGNATURES = (
    # Slurm's options and variables
    signature(r"(?P<how>--gres[= ](?:\S{0,60},)?gpu(?::[A-Za-z][\w.-]{0,30})?(?::(?P<count>\d{1,3}))?)\b", _asked),
    signature(
        r"(?P<how>--gpus-per-(?:node|task|socket)[= ](?:[A-Za-z][\w.-]{0,30}:)?\d{1,3}|--gpus[= ](?:all|\d{1,4}|['\"]?device=))",
        _asked,
    ),
    signature(r"(?P<how>(?:SLURM_GPUS_ON_NODE|SLURM_GPUS_PER_NODE)[=:] ?(?P<count>[1-9]\d{0,2}))\b", _asked),
    # Kubernetes
    signature(r"(?P<how>(?:nvidia|amd)\.com/gpu['\"]?[:=] ?['\"]?(?P<count>[1-9]\d{0,2}))\b", _asked),
    # what a program is set to
    signature(r"(?P<how>\b(?:dist[_-])?backend['\"]?(?:[=:]| =)? ?['\"]?nccl)\b", _asked),
    signature(
        r"(?P<how>(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=(?P<value>(?:\d{1,3}(?:,\d{1,3}){0,63}|(?:GPU|MIG)-[\w,/-]{8,400}|-1|none|NoDevFiles)"
        r"(?=['\"]?(?:[\s;]|$))|['\"]{2}|(?=[;\s]|$))",
        _chosen,
    ),
    signature(
        r"(?P<how>JAX_PLATFORMS=['\"]?cpu\b|JAX_PLATFORM_NAME=['\"]?cpu\b|--(?:accelerator|device)[= ]cpu\b|--(?:no[_-]cuda|use[_-]cpu)\b"
        r"|\b(?:use_cpu|no_cuda)=True)",
        AcceleratorAsked,
        wanted=False,
    ),
    # nvidia-smi's table and list: whoever prints these expects a GPU
    signature(r"(?P<how>NVIDIA-SMI) \d{3}\.\S{1,12} +(?:KMD Version: \S{1,12} +)?Driver Version: ", AcceleratorAsked),
    signature(r"^(?P<how>GPU \d{1,3}): [^\n(]{3,60} \(UUID: GPU-", AcceleratorAsked),
    # launchers that start one rank for each device
    signature(r"--nproc[_-]per[_-]node[= ](?P<count>\d{1,3})\b", RanksPerNode),
    # in use
    signature(
        r"Created (?:TensorFlow )?device \(?(?P<device>/job:\w{1,20}/replica:\d+/task:\d+/device:(?:GPU|TPU):\d+)",
        AcceleratorUsed,
    ),
    signature(r"(?P<device>\b(?:CudaDevice|GpuDevice|TpuDevice|RocmDevice)\(id=\d+)", AcceleratorUsed),
    signature(
        r"\b(?:[Uu]sing|[Uu]se|[Tt]raining on|[Rr]unning on|[Ss]elected) (?:the )?[Dd]evice[:=]? ?['\"]?(?P<device>(?:cuda|gpu|GPU|tpu|TPU|xla|mps|npu|hpu)(?::\d+)?\b)",
        AcceleratorUsed,
        anchors=by_hand("device is a common word", *_DEVICE),
    ),
    signature(r"Process rank: -?\d+, device: (?P<device>(?:cuda|xla|npu|hpu)(?::\d+)?), n_gpu: ", AcceleratorUsed),
    signature(r"(?P<device>GPU) available: True(?: \(\w{1,12}\))?, used: True", AcceleratorUsed),
    signature(r"(?P<device>TPU) available: True, using: [1-9]", AcceleratorUsed),
    signature(r"LOCAL_RANK: \d+ - (?P<device>CUDA)_VISIBLE_DEVICES: \[\d", AcceleratorUsed),
    # not in use
    signature(
        r"Could not find cuda drivers on your machine, GPU will not be used",
        OnCpu,
        framework="tensorflow",
        why="TensorFlow found no CUDA libraries",
    ),
    signature(
        r"There are non-GPU devices in `tf\.distribute\.Strategy`",
        OnCpu,
        framework="tensorflow",
        why="its strategy got CPU devices",
    ),
    signature(
        r"No GPU/TPU found, falling back to CPU", OnCpu, framework="jax", why="JAX found neither a GPU nor a TPU"
    ),
    signature(
        r"An? (?P<kind>(?:NVIDIA |AMD )?GPU) may be present on this machine, but a \S{1,30} jaxlib is not installed\. Falling back to cpu",
        OnCpu,
        framework="jax",
        why="the installed jaxlib has no support for it",
        present=True,
    ),
    signature(
        r"A Google TPU may be present on this machine, but either a TPU-enabled jaxlib or libtpu is not installed\. Falling back to cpu",
        OnCpu,
        framework="jax",
        why="libtpu, or a jaxlib for TPUs, is not installed",
        kind="TPU",
        present=True,
    ),
    signature(
        r"(?:GradScaler is enabled|User provided device_type of 'cuda'), but CUDA is not available\. +Disabling",
        OnCpu,
        framework="torch",
        why="CUDA is not available to PyTorch",
    ),
    signature(
        r"CUDA initialization: (?:Found no NVIDIA driver|CUDA driver initialization failed, you might not have a CUDA gpu)",
        OnCpu,
        framework="torch",
        why="PyTorch found no NVIDIA driver",
    ),
    signature(
        r"CUDA initialization: (?P<why>CUDA unknown error|The NVIDIA driver on your system is too old|Unexpected error from cudaGetDeviceCount\(\))",
        OnCpu,
        framework="torch",
        present=True,
    ),
    signature(r"Process rank: -?\d+, device: cpu, n_gpu: 0", OnCpu, framework="torch", why="the trainer chose the CPU"),
    signature(r"GPU available: False, used: False", OnCpu, framework="torch", why="the trainer found no GPU"),
    signature(
        r"\b(?:[Uu]sing|[Tt]raining on|[Rr]unning on) (?:the )?[Dd]evice[:=]? ?['\"]?(?:cpu|CPU)\b",
        OnCpu,
        why="the program chose the CPU",
        anchors=by_hand("device is a common word", *_DEVICE),
    ),
    signature(
        r"\b(?:(?:CUDA|GPU) (?:is |was )?(?:not available|unavailable|not found)|[Nn]o (?:CUDA|GPU)(?: device)?s? (?:is |are |was )?(?:found|available|detected))"
        r"[,.;:!]? (?:[A-Za-z]{1,12} ){0,3}(?:on|to|using|with) (?:the )?(?:CPU|cpu)\b",
        OnCpu,
        why="the program found no GPU",
    ),
    signature(
        r"(?P<what>(?:GPU|TPU|HPU|MPS)) available but not used\.",
        DevicesLeft,
        anchors=by_hand("the words are common", "available but not used"),
    ),
)
