# SPDX-License-Identifier: Apache-2.0
"""torch_xla: its spawn, its mesh service (XRT) and its PJRT client."""

from __future__ import annotations

from keepstep.core.facts.config import RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.network import PeerLost, RendezvousTimeout
from keepstep.core.facts.process import ProcessExited
from keepstep.parse.signature import signature

SIGNATURES = (
    signature(
        r"Exception in device=(?:TPU|xla|XLA|CPU|GPU):(?P<rank>\d+)", ProcessExited, reporter="torch_xla", code=1
    ),
    signature(
        r"Failed to meet rendezvous '(?P<where>[^']{1,80})': (?!Socket closed|Connection reset|failed to connect)",
        RendezvousTimeout,
    ),
    signature(
        r"Failed to meet rendezvous '[^']{1,80}': (?P<how>Socket closed|Connection reset by peer|failed to connect to all addresses)",
        PeerLost,
    ),
    signature(r"Failed to retrieve mesh configuration: (?P<how>[^\n]{0,80})", PeerLost),
    signature(
        r"Missing (?:necessary )?(?:env|environment) (?:variable|var)s?:? (?P<name>XRT_\w+)",
        RankVariableMissing,
        anchors=("XRT_",),
    ),
    signature(
        r"(?P<name>XRT_TPU_CONFIG|XRT_WORKERS|XRT_DEVICE_MAP|PJRT_DEVICE)[^\n]{0,20}(?:is not set|must be set|not configured|not found)",
        RankVariableMissing,
        anchors=("XRT_TPU_CONFIG", "XRT_WORKERS", "XRT_DEVICE_MAP", "PJRT_DEVICE"),
    ),
    signature(r"Missing XLA configuration", RankVariableMissing, name="XRT_TPU_CONFIG"),
    signature(
        r"Requested (?P<expected>\d+) devices? but (?:only )?(?P<seen>\d+) (?:are|is) available",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Number of replicas \((?P<seen>\d+)\)[^\n]{0,60}(?:must match|does not match)[^\n]{0,40}\((?P<expected>\d+)\)",
        WorldSizeConflict,
        what="replicas",
    ),
)
