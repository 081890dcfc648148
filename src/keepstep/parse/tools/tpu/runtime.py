# SPDX-License-Identifier: Apache-2.0
"""libtpu, the TPU runtime and Cloud TPU: memory, busy devices, set-up, health.

XLA's ``Ran out of memory in memory space hbm`` is printed alike by TensorFlow, JAX and
torch_xla, because libtpu words it. The out-of-memory texts of GPUs are elsewhere.
"""

from __future__ import annotations

from keepstep.model.facts.network import PeerAwaited
from keepstep.model.facts.platform import TpuInitFailed, TpuUnhealthy
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # memory of the chip
    signature(
        r"Failed to allocate request for (?P<requested>\S+) \(\d+B\) on device ordinal",
        lambda m: DeviceMemoryExhausted(
            requested=m["requested"], kind="tpu" if "tpu" in m.string.lower() or "hbm" in m.string.lower() else "gpu"
        ),
    ),
    signature(
        r"(?P<what>Driver must be Open to DMA map|(?:^|[\s:(])Driver not open\b)",
        lambda m: TpuUnhealthy(what="its driver was closed while it was in use"),
    ),
    signature(
        r"No OpKernel was registered to support Op '(?P<op>(?:Configure|Initialize|WaitFor|Set|Shutdown)\w*TPU\w*)'",
        lambda m: TpuInitFailed(what=f"no TPU is attached to this process: nothing runs {m['op']}"),
    ),
    # Mesh TensorFlow
    signature(
        r"Waiting to connect to client mesh master \(\d+ seconds\)(?: (?P<address>\S+))?",
        lambda match: PeerAwaited(peer="the mesh master", peer_rank=0),
    ),
)
