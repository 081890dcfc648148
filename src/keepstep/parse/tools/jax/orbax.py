# SPDX-License-Identifier: Apache-2.0
"""Orbax: steps and metadata that are not there, trees that do not fit, waits for storage that ended."""

from __future__ import annotations

from keepstep.core.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"(?P<why>No ArrayMetadata found for (?:process_index|param_info)\S{0,40}|ArrayMetadata Store contains no metadata for process_index=\d+"
        r"|ArrayMetadata Store contains metadata from just one process)",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<why>PyGrain states not found at|Failed to detect process index for step|Process index \d+ not found in) (?P<path>/\S{1,300})?",
        CheckpointUnreadable,
    ),
    signature(r"(?P<why>Step metadata not found) at (?P<path>\S{1,300})", CheckpointUnreadable),
    signature(r"Step directory (?P<path>\S{1,300}) (?P<why>does not exist)\.", CheckpointUnreadable),
    signature(r"Checkpoint path (?P<path>\S{1,300}) (?P<why>is not a directory)", CheckpointUnreadable),
    signature(
        r"(?P<why>StepMetadata\.item_handlers must be a dict|Device str not found in deserialized_dict|Snapshot (?:source )?does not exist)",
        CheckpointUnreadable,
    ),
    signature(
        r"ValidationError: (?P<why>Expected (?P<path>\S{1,300}) \([^)\n]{1,300}\) to exist)",
        CheckpointUnreadable,
    ),
    signature(
        r"The provided sharding is not valid\. (?P<detail>The primary replica has the following devices: [^\n]{1,120})",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<detail>All devices are in the primary replica\. There are no non-primary replicas)", ClusterSpecInvalid
    ),
    signature(
        r"The product of (?:ICI|DCN) parallelism values (?P<expected>\d+) must equal \w{5,30} (?P<seen>\d+)",
        WorldSizeConflict,
        what="devices and the mesh",
    ),
    signature(
        r"(?P<why>was found in the checkpoint, but it is a temporary item|Sharding data not found in deserialized_dict)",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>Structure mismatch: Target path [^\n]{1,80}? not found in metadata_tree|Transformation key \"[^\"\n]{1,120}\" not found in"
        r" origin tree|The following paths in input value are not part of the full tree structure)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The available devices are different from the devices used to save the checkpoint)",
        CheckpointMismatch,
    ),
    signature(
        r"Type mismatch at key path [^\n]{1,120}?: (?P<detail>template has type [^\n]{1,80}, but structure has type [^\n]{1,80})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Timed out waiting for array_metadatas base directory creation|Thread \S{1,60} did not complete within \d+(?:\.\d+)? seconds"
        r"|Timeout waiting at barrier '[^'\n]{1,120}'|ChainedFuture completed \d+/\d+ futures but timed out after \d+(?:\.\d+)? seconds"
        r"|Timed out while waiting for async_(?:write|commit)_complete barrier)",
        SlowStorage,
    ),
)
