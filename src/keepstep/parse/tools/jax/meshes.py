# SPDX-License-Identifier: Apache-2.0
"""JAX: a mesh or a program that does not fit the number of devices."""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"pmapped functions must run across all devices, i\.e\. num_replicas \* num_partitions should equal the number of local devices"
        r"|compiling computation that creates (?P<expected>\d+) shards, but (?P<seen>\d+) devices were specified"
        r"|pmapped function requires \d+ local devices to run due to nested pmapped",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Error: (?:DCN parallelism requested but only one slice available|This custom mesh is not valid for (?P<seen>\d+) devices"
        r"|number of partitions on GPU must be a factor or multiple of the number of local devices)",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"Number of (?P<what>slices(?:/granules)?|granules) (?P<seen>\d+) must equal the product of dcn_mesh_shape \((?P<expected>[\d, ]{1,40})\)",
        WorldSizeConflict,
    ),
    signature(
        r"process_index (?P<seen>\d+) does not exist in provided `global_mesh`",
        WorldSizeConflict,
        what="a process of the mesh",
    ),
)
