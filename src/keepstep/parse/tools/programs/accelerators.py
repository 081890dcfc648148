# SPDX-License-Identifier: Apache-2.0
"""Accelerators that a job asks for, that its processes use, and frameworks that say they run without one."""

from __future__ import annotations

import re

from keepstep.model.facts.accelerators import AcceleratorAsked
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.signature import signature

_ADVICE = re.compile(r"(?i)\b(?:e\.g\.|for example|try|please|you can|consider|should|usage:|suggest)")
"""A command after one of these is advice, not what was run."""


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
)
