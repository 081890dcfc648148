# SPDX-License-Identifier: Apache-2.0
"""InfiniBand, RoCE and EFA: failures as NCCL, aws-ofi-nccl, UCX, Open MPI and verbs drivers word them.

A missing ``libibverbs`` or ``No device found`` is normal on hosts without such adapters and is not here.
"""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import RdmaTrouble
from keepstep.model.facts.platform import NicFault
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
        r"NET/IB ?: (?:(?P<device>[\w.:]+) )?Got async event ?: (?P<what>port error|device fatal|port active|[^\n]{3,50})",
        lambda m: (
            NicFault(what=m["what"].strip(), device=m["device"])
            if re.match(r"device fatal|local catastrophic", m["what"])
            else RdmaTrouble(what=m["what"].strip(), device=m["device"], fatal=m["what"].startswith("port err"))
            if "error" in m["what"] or "violation" in m["what"]
            else None
        ),
    ),
    signature(
        r"communicator encountered a fatal error \(detected in (?P<what>nccl\w+)\)",
        lambda m: RdmaTrouble(what=f"fatal error of the adapter or queue pair, reported by {m['what']}"),
    ),
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
    # UCX
    signature(
        r"(?<![\w\-])(?P<what>[A-Z][\w\- ]{5,60}?) on (?P<device>\w+:\d+)/(?:IB|RoCE|Ethernet)\w* \(synd 0x",
        lambda m: RdmaTrouble(
            what=m["what"].strip() + (" (the peer does not answer)" if "retry" in m["what"] else ""), device=m["device"]
        ),
    ),
)
