# SPDX-License-Identifier: Apache-2.0
"""NCCL: networks, network plug-ins and addresses it cannot use."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.network import RdmaTrouble
from keepstep.parse.scan.signature import signature

_WARN = r"(?:NCCL WARN |^\s*)"


SIGNATURES = (
    signature(
        r"Net ?: (?P<detail>No valid (?:<IPv4_or_hostname>:<port>|\[IPv6\]:port) pair found)", ClusterSpecInvalid
    ),
    signature(
        _WARN
        + r"(?P<detail>TOPO/NET ?: Could not force merge NICs \S{1,80}|TOPO/NET ?: Only matched \d+ devices, \d+ requested from \S{1,80}"
        r"|Specified fused NIC \S{1,80} which has too many devices|Rank \d+ requires NIC \d+ but that NIC is not available for rank \d+"
        r"|XML (?:Import|Export) Channel ?: (?:dev|rank) \w+ not found|Invalid NCCL_COMM_BLOCKING value -?\d+"
        r"|'?NCCL_WORK_FIFO_DEPTH=\d+'? is too small|Unrecognized (?:element|prefix) token \"[^\"\n]{0,40}\" when parsing"
        r"|TOPO/NET ?: Tried to merge too many NICs)",
        ClusterSpecInvalid,
    ),
    signature(
        _WARN
        + r"(?P<what>Error ?: network \S[^\n]{0,60} not found\.?|Error ?: Network returned 0 device|Failed to initialize any NET plugin)",
        RdmaTrouble,
    ),
    signature(
        r"NET/IB ?: (?P<what>Attempted to merge incompatible devices|OOO RQ is force enabled but \S[^\n]{0,80}"
        r"|Trying to use non-existent virtual device \d+|Can't make virtual NIC with 0 devices|Cannot use physical device \d+, max \d+"
        r"|Local mergedDev ?=?\S{1,60} has a different number of devices|Can't merge net devices with different link_layer"
        r"|could not find mr \w+ inside cache|req \d+/\d+ tag \w+ peer \S{1,60} posted incorrect receive info)",
        RdmaTrouble,
    ),
    signature(
        _WARN + r"(?P<what>Unable to use GIN: Peermem is not supported"
        r"|No RMA-capable devices found)",
        RdmaTrouble,
    ),
)
