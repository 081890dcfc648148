# SPDX-License-Identifier: Apache-2.0
"""Pods that Kubernetes does not start, because of what they ask for and not for lack of room.

Lack of room, evictions and containers that ended are in ``kubernetes/pods``.
"""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import LibraryMissing
from keepstep.model.facts.platform import Preempted
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?P<detail>0/\d+ nodes are available: (?:(?!Insufficient)[^\n]){0,120}?(?:didn't match (?:Pod's )?(?:node affinity|node selector|pod affinity)"
        r"|had (?:untolerated )?taints? |didn't have free ports|were unschedulable|had volume node affinity conflict"
        r"|persistentvolumeclaim \"[^\"\n]{1,80}\" not found)(?:(?!Insufficient)[^\n]){0,60})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>(?:Failed to pull image \"[^\"\n]{1,200}\"|Error: (?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull"
        r"|CreateContainerConfigError))[^\n]{0,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"exec: \"(?P<name>[^\"\n]{1,200})\": (?:executable file not found in \$PATH|stat [^\n]{1,200}: no such file or directory)",
        LibraryMissing,
    ),
    signature(
        r"(?P<detail>(?:Failed to create pod sandbox|MountVolume\.\w{1,30} failed for volume \"[^\"\n]{1,120}\"|Unable to attach or mount volumes"
        r"|AttachVolume\.Attach failed for volume)[^\n]{0,120})",
        ClusterSpecInvalid,
    ),
    # taken away for others
    signature(
        r"Preempted +(?:by \S{1,120}(?: on node|$)|to accommodate a workload)|\bEvictedDueToPreempted\b|WorkloadPreempted",
        Preempted,
        by="Kubernetes",
        reason="preemption",
    ),
)
