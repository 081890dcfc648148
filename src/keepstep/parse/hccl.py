# SPDX-License-Identifier: Apache-2.0
"""Ascend's collectives (HCCL) and runtime (CANN), by the codes that their messages begin with."""

from __future__ import annotations

from keepstep.core.facts.network import ConnectFailed, PortTaken, Why
from keepstep.core.facts.platform import DeviceFault
from keepstep.core.facts.resource import Contention, DeviceMemoryExhausted
from keepstep.core.facts.sync import CollectiveMismatch, CollectiveTimeout
from keepstep.parse.signature import signature

SIGNATURES = (
    signature(r"EI0002: [^\n]{0,120}", CollectiveTimeout, op="HCCL", anchors=("EI0002: ",)),
    signature(r"EI0005: [^\n]{0,160}", CollectiveMismatch, what="parameters of a collective", anchors=("EI0005: ",)),
    signature(r"EI0006: [^\n]{0,120}", ConnectFailed, why=Why.TIMED_OUT, anchors=("EI0006: ",)),
    signature(
        r"EI0007: [^\n]{0,120}|EL0004: Failed to allocate memory",
        DeviceMemoryExhausted,
        anchors=("EI0007: ", "EL0004: "),
    ),
    signature(
        r"EJ0001: [^\n]{0,60}?Failed to initialize the HCCP process",
        Contention,
        what="another process still holds this device's communication service",
        anchors=("Failed to initialize the HCCP process",),
    ),
    signature(r"EJ0003: [^\n]{0,60}?Failed to bind the IP port", PortTaken, anchors=("EJ0003: ",)),
    signature(
        r"EE1002: [^\n]{0,60}?[Ss]tream synchronize timeout|reason=\[(?:stream sync|task|event sync) timeout\]",
        CollectiveTimeout,
        op="HCCL",
        anchors=("EE1002: ", "reason=[stream sync timeout]", "reason=[task timeout]", "reason=[event sync timeout]"),
    ),
    signature(
        r"(?:EZ9999|E[EZ]\d{4}): [^\n]{0,200}(?P<what>aicore exception|HBM MULTI BIT ECC|uncorrectable)",
        lambda m: DeviceFault(what=m["what"], hardware="aicore" not in m["what"]),
        anchors=("aicore exception", "HBM MULTI BIT ECC"),
    ),
)
