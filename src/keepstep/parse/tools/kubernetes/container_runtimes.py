# SPDX-License-Identifier: Apache-2.0
"""Docker, Apptainer (Singularity), Podman, enroot: containers that did not start, devices the kubelet refused them."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import CudaMismatch, LibraryMissing
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"[Uu]nknown (?:runtime specified|or invalid runtime name:) (?:nvidia|habana|amd|ascend)\b|unresolvable CDI devices? \S|failed to inject CDI devices",
        CudaMismatch,
        what="the container runtime of the accelerators is not installed",
    ),
    signature(
        r"(?P<detail>(?:pull access denied for \S{1,200}|manifest for \S{1,200} not found|repository \S{1,200} not found: does not exist"
        r"|docker: invalid reference format|toomanyrequests: You have reached your pull rate limit|Unable to find image '\S{1,200}' locally\s+docker: Error"
        r"|is waiting to start: (?:trying and failing to pull image|image can't be pulled)))",
        ClusterSpecInvalid,
    ),
    signature(
        r"Bind for \S{1,60}?:(?P<port>\d{2,5}) failed: port is already allocated|failed to bind host port[^\n]{0,60}:(?P<other>\d{2,5})[^\n]{0,30}address already in use",
        lambda m: PortTaken(port=int(m["port"] or m["other"])),
    ),
    signature(
        r"FATAL: +(?:\"(?P<program>[^\"\n]{1,120})\": executable file not found in \$PATH|stat (?P<path>/\S{1,200}): no such file or directory)",
        lambda m: LibraryMissing(name=m["program"] or m["path"]),
    ),
    signature(
        r"FATAL: +(?P<detail>(?:[^\n]{0,80}could not open image \S{1,200}|[^\n]{0,60}failed to retrieve path for \S{1,200}|container creation failed: [^\n]{1,120}"
        r"|[^\n]{0,40}while mounting [^\n]{1,120}|Unable to (?:handle|pull|build) \S[^\n]{1,120}|[^\n]{0,60}image format not recognized))",
        ClusterSpecInvalid,
    ),
    signature(
        r"\[ERROR\] (?P<detail>(?:No such file or directory: \S{1,200}\.(?:sqsh|sif)|Could not process JSON input|URL \S{1,200} returned error code: (?:401|403|404)[^\n]{0,40}))",
        ClusterSpecInvalid,
    ),
    # a kubelet that has no healthy device to give
    signature(
        r"no healthy devices present; cannot allocate unhealthy devices (?P<device>[\w.\-/]+)",
        DeviceFault,
        what="the node has no healthy accelerator",
    ),
)
