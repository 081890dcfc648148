# SPDX-License-Identifier: Apache-2.0
"""InfiniBand, RoCE and EFA: failures as NCCL, aws-ofi-nccl, UCX, Open MPI and verbs drivers word them.

A missing ``libibverbs`` or ``No device found`` is normal on hosts without such adapters and is not here.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import RdmaTrouble
from keepstep.model.facts.platform import NicFault
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.signature import signature

_STATUS = {
    "4": "local protection error",
    "5": "work request flushed",
    "9": "remote invalid request",
    "10": "remote access error",
    "11": "remote operation error",
    "12": "transport retries exceeded (the peer does not answer)",
    "13": "receiver-not-ready retries exceeded",
}


def _completion(match: re.Match[str]) -> Fact:
    code = match["code"]
    what = _STATUS.get(code, f"error {code}")
    hca = re.search(r"hca (\w+)", match.string)
    return RdmaTrouble(what=f"completion with {what}", peer=match["peer"], device=hca[1] if hca else None)


def _verb(match: re.Match[str]) -> Fact | None:
    text = match.string
    if "retrying" in text or "NCCL INFO" in text:
        return RdmaTrouble(what=f"{match['verb']} failed", fatal=False)
    error = re.search(r"failed (?:with (?:error )?(?:\d+ )?|: )(?P<error>[A-Z][\w ]{3,60})", text)
    return RdmaTrouble(what=f"{match['verb']} failed" + (f": {error['error'].strip()}" if error else ""))


SIGNATURES = (
    signature(
        r"Got completion (?:from peer (?P<peer>\S+?(?:<\d+>)?) )?with (?:error (?P<code>\d+)|status=(?:[A-Za-z_]+\()?(?P<status>\d+))",
        lambda m: (
            _completion(m)
            if m["code"]
            else RdmaTrouble(what=f"completion with {_STATUS.get(m['status'], 'error ' + m['status'])}", peer=m["peer"])
        ),
    ),
    signature(r"Call to (?P<verb>ibv_\w+)(?:\(\))? (?:failed|returned (?!0))", _verb),
    signature(
        r"(?P<verb>ibv_(?:post_send|post_recv|modify_qp|create_qp|create_cq|reg_mr|query_gid|query_port|"
        r"open_device|alloc_pd)\w{0,20})(?:\(\))? failed(?! with[^\n]{0,80}retrying)",
        _verb,
    ),
    signature(
        r"NET/IB ?: (?P<device>[\w.:]+) (?:async fatal event|Got async error event)[^:\n]{0,80}: (?P<what>[^\n]{3,60})",
        RdmaTrouble,
    ),
    signature(
        r"NET/IB ?: (?:(?P<device>[\w.:]+) )?Got async event ?: (?P<what>port error|device fatal|port active|[^\n]{3,50})",
        lambda m: (
            NicFault(what=m["what"].strip(), device=m["device"])
            if re.match(r"port err|device fatal|local catastrophic", m["what"])
            else RdmaTrouble(what=m["what"].strip(), device=m["device"], fatal=False)
            if "error" in m["what"] or "violation" in m["what"]
            else None
        ),
    ),
    signature(
        r"communicator encountered a fatal error \(detected in (?P<what>nccl\w+)\)",
        lambda m: RdmaTrouble(what=f"fatal error of the adapter or queue pair, reported by {m['what']}"),
    ),
    signature(
        r"NET/IB ?: (?:\w{1,80}: )?(?P<what>Got CQE with error|The error is fatal \([^)\n]{1,80}\)|Could not find a functional device"
        r"|Could not find a replacement QP|Maximum number of probing attempts \(\d+\) reached|mlx5dv_create_qp failed)",
        RdmaTrouble,
    ),
    signature(
        r"(?P<what>Detected mixed local (?:Net|CollNet) device counts across ranks \(min \d+, max \d+\))", RdmaTrouble
    ),
    signature(
        r"NET/IB ?: (?P<what>Attempted to connect incompatible devices|Remote \S+ device is incompatible|"
        r"Can't connect net devices with different link_layer)",
        RdmaTrouble,
    ),
    signature(r"NET/IB ?: (?P<what>Unable to (?:open|query) (?:device|port)\w* \S+)", RdmaTrouble, fatal=False),
    signature(r"NET/IB ?: (?:\w{1,80}: )?(?P<what>Device \d+ marked as failed)", RdmaTrouble, fatal=False),
    signature(r"NET/IB ?: [^\n]{0,80}collective mismatch error", CollectiveMismatch, what="size of a message"),
    signature(
        r"NET/OFI (?:\w{1,60}:\d+ )?(?P<what>[^\n]{0,90}?(?=[UuCcFfINnOEeR])(?:[Uu]nable to|[Cc]ouldn't|[Ff]ailed|[Ff]ailure|[Cc]ould not|Cannot "
        r"|Caught exception|Insufficient|completed with error|[Nn]o usable|No eligible|Only EFA provider is supported|[Ee]rror |ERROR:"
        r"|Remote? endpoint)[^\n]{0,100})",
        # a function that the plugin looks for in NCCL and does without
        lambda m: RdmaTrouble(
            what=m["what"].strip(), fatal="NCCL INFO" not in m.string and not m["what"].endswith(" symbol")
        ),
    ),
    signature(
        r"NET/OFI (?:\w{1,60}:\d+ )?(?P<what>EFA provider requires at least libfabric version [\d.]+|Provider \S{1,40} does not provide enough tag bits"
        r"|Unexpected number of remote (?:control )?rails for dev \d+[^\n]{0,60}|Provider does not support \d+ bytes of immediate data"
        r"|Can not support more than \d+ inflight requests|Completion with unexpected NULL op_context|RECV event had NULL ctx"
        r"|Received (?:eager|write-immediate|close) message for non-existent \w+[^\n]{0,40}|Topology reported unexpected number of devices)",
        lambda m: RdmaTrouble(what=m["what"].strip(), fatal="NCCL INFO" not in m.string),
    ),
    # the kernel's own messages about EFA and other adapters
    signature(
        r"infiniband \w{1,20}: (?P<what>Failed to (?:process command \w{1,30}|register mr|create (?:qp|cq|ah|pd)\b))",
        RdmaTrouble,
    ),
    signature(
        r"libfabric:\d+:\d+::\S{1,120}<(?:warn|critical)> (?P<what>[^\n]{0,80}?err: \d+, (?:message|prov_err)[^\n]{0,80}"
        r"|Libfabric EFA provider has encountered an internal error[^\n]{0,60})",
        RdmaTrouble,
    ),
    # memory that the adapter cannot register; for lack of room it retries with less
    signature(
        r"libfabric:\d+:\d+::efa:mr:\w{1,40}\(\):\d+<warn> (?P<what>Unable to register MR[^\n]{0,40}: (?:Invalid argument|Bad address"
        r"|Operation not (?:permitted|supported)))",
        RdmaTrouble,
    ),
    # TensorFlow's verbs transport
    signature(
        r"verbs/rdma(?:_mgr)?\.cc:\d+\] (?:Check failed: [^\n]{0,80}?)?(?P<what>(?:Failed to (?:create|open|allocate|modify|query|register|"
        r"post|poll|request|get|initialize)|No (?:active|RDMA|IB)|There is no active port|RDMA )[^\n]{0,80})",
        RdmaTrouble,
    ),
    # UCX
    signature(
        r"UCX +(?:ERROR|FATAL)[^\n]{0,160}?(?P<what>Transport retry count exceeded|Remote access|Local (?:QP|"
        r"protection|length)|Endpoint timeout|[Ss]end completion with error|error modifying \w+ to RT[RS]|"
        r"failed to find a gid|Couldn't enable GPUDirect RDMA|ibv_\w+\([^\n]{0,120}?\) failed[^\n]{0,60}|no active messages transport|"
        r"Destination is unreachable|[Nn]o usable transports|Input/output error|Connection reset by remote peer)[^\n]{0,60}",
        RdmaTrouble,
    ),
    signature(
        r"(?<![\w\-])(?P<what>[A-Z][\w\- ]{5,60}?) on (?P<device>\w+:\d+)/(?:IB|RoCE|Ethernet)\w* \(synd 0x",
        lambda m: RdmaTrouble(
            what=m["what"].strip() + (" (the peer does not answer)" if "retry" in m["what"] else ""), device=m["device"]
        ),
    ),
    # Open MPI's openib, and verbs drivers
    signature(r"libibverbs: (?P<what>GRH is mandatory [Ff]or RoCE address handle)", RdmaTrouble),
    signature(r"libibverbs: Fatal: (?P<what>couldn't read uverbs ABI version)", RdmaTrouble),
    signature(r"error polling [LH]P CQ with status (?P<what>[A-Z][\w \-]{1,60}?) status number", RdmaTrouble),
    signature(
        r"The OpenFabrics stack has reported a network error event",
        RdmaTrouble,
        what="OpenFabrics network error event",
        fatal=False,
    ),
    signature(r"mlx[45]: [^\n]{0,60}got completion with error", RdmaTrouble, what="mlx driver: completion with error"),
    signature(
        r"RETRY EXCEEDED ERROR|IBV_WC_RETRY_EXC_ERR|transport retry counter exceeded|ib_mlx5_log\.c:\d+ +Transport retry count exceeded",
        RdmaTrouble,
        what="transport retries exceeded (the peer does not answer)",
    ),
    signature(
        r"rdma_(?:resolve_addr|resolve_route|connect|create_qp|create_ep)\w{0,20}(?:\(\))? failed|"
        r"RDMA_CM_EVENT_(?:UNREACHABLE|REJECTED|ADDR_ERROR|ROUTE_ERROR)",
        RdmaTrouble,
        what="RDMA connection manager",
    ),
    # TensorFlow over verbs or GPUDirect (contrib, networking, Yahoo's): whatever its own files check of the adapter
    signature(
        r"\bF tensorflow\S{0,60}/(?:verbs|rdma|gdr)/(?:rdma|gdr)\w*\.cc:\d+\] (?:Check failed: (?!s\.ok\(\)|false\b)\S[^\n]{0,60}?[ )])?"
        r"(?P<what>\.? ?(?:No InfiniBand|Open context failed|Failed (?:to|status)|Device \S+ has no active|There is no active|No active ports|More than one|"
        r"Selected RDMA_|RDMA_\w+ should|MTU |QP to |Port is not|Connectivity check failed|Couldn't|Cannot )[^\n]{0,120})",
        RdmaTrouble,
    ),
    signature(
        r"F tensorflow\S{0,60}/(?:verbs|rdma)/rdma\w*\.cc:\d+\] Check failed: false (?P<what>The device \S+ wasn't found|No device was set!)",
        RdmaTrouble,
    ),
)
