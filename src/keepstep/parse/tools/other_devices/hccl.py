# SPDX-License-Identifier: Apache-2.0
"""Ascend's collectives (HCCL) and runtime (CANN), by the codes that their messages begin with.

``EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out.``; from CANN 8.3 on with a name before the code:
``Communication_Error_Get_Socket(EI0006): ...``. torch_npu adds the number of the runtime's error.
"""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch
from keepstep.model.facts.platform import DeviceFault
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # what its own log says below the codes
    signature(
        r"(?:E[EZL]\d{4}\)?: [^\n]{0,200}|retCode=\w{3,12}, \[)(?P<what>aicore exception|HBM MULTI BIT ECC|uncorrectable)",
        lambda m: DeviceFault(what=m["what"], hardware="aicore" not in m["what"]),
    ),
    # the runtime's numbers, as torch_npu prints them
    signature(
        r"ACL stream synchronize failed, error code:(?P<code>\d{6})",
        lambda m: (
            CollectiveTimeout(op="HCCL")
            if m["code"] in ("507046", "107020")
            else DeviceFault(
                what="a kernel of the NPU failed", hardware=m["code"] in ("507010", "507054", "507899", "507901")
            )
        ),
    ),
    # a torch_npu that asks the installed CANN for what it does not have yet
    signature(
        r"Failed to find function (?P<name>(?:acl|Acl|[Hh]ccl|dcmi|aclrt)\w{3,80})",
        lambda m: CudaMismatch(what=f"the installed CANN has no {m['name']}: it is older than torch_npu needs"),
    ),
)
