# SPDX-License-Identifier: Apache-2.0
"""Docker, Apptainer (Singularity), Podman, enroot: containers that did not start, devices the kubelet refused them."""

from __future__ import annotations

from keepstep.model.facts.environment import LibraryMissing
from keepstep.model.facts.network import PortTaken
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"Bind for \S{1,60}?:(?P<port>\d{2,5}) failed: port is already allocated|failed to bind host port[^\n]{0,60}:(?P<other>\d{2,5})[^\n]{0,30}address already in use",
        lambda m: PortTaken(port=int(m["port"] or m["other"])),
    ),
    signature(
        r"FATAL: +(?:\"(?P<program>[^\"\n]{1,120})\": executable file not found in \$PATH|stat (?P<path>/\S{1,200}): no such file or directory)",
        lambda m: LibraryMissing(name=m["program"] or m["path"]),
    ),
)
