# SPDX-License-Identifier: Apache-2.0
"""Orbax: missing steps and metadata, trees that do not fit, storage that took too long."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid, WorldSizeConflict
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.sync import CollectiveMismatch, ReplicasDiffer
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
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
        r"ValidationError: (?P<why>Expected (?P<path>\S{1,300}) \([^)\n]{1,300}\) to exist)", CheckpointUnreadable
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
    signature(
        r"(?P<why>No structure could be identified for the checkpoint)(?: at (?P<path>\S{1,300}?)\.?(?:\s|$))?",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<why>Found incomplete checkpoint|is not a finalized checkpoint|Checkpoint [^\n]{0,200}incomplete)",
        CheckpointUnreadable,
    ),
    signature(r"FileNotFoundError: No steps found in (?P<path>\S{1,300})", CheckpointUnreadable, why="it has no steps"),
    signature(
        r"(?P<why>Requested directory for restore does not exist|Checkpoint structure file does not exist|Metadata file \(named \w+\) does not exist"
        r"|Individual parameter subdirectory not found|Found empty checkpoint PyTree metadata)(?: (?:at|in)(?: path:| directory=)? ?(?P<path>\S{1,300}))?",
        CheckpointUnreadable,
    ),
    signature(
        r"File not found: (?P<path>\S{1,300})\. In many cases, this results from copying a checkpoint",
        CheckpointUnreadable,
        why="a file of it is missing",
    ),
    signature(r"No step path found with name=(?P<path>[^\s,]{1,100})", CheckpointUnreadable, why="no such step"),
    signature(
        r"(?P<detail>User-provided restore item and on-disk value metadata tree structures do not match)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Requested shape: [^\n]{0,60}is not compatible with the stored shape[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>sharding passed to deserialization should be specified)", CheckpointMismatch),
    signature(
        r"(?P<detail>Item \\?\"[^\"\n]{1,60}\" was (?:not found|found) in the checkpoint(?:\. Available|, but could not be restored)[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The checkpoint was saved with a different topology than the current one)", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>Saved and current process metadata are not compatible with mesh-consistency restore)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>ArrayMetadata Store contains different [^\n]{0,160})", CheckpointMismatch),
    signature(r"ValueError: (?P<detail>Length mismatch at key path [^\n]{0,160})", CheckpointMismatch),
    signature(r"(?P<detail>Device \S{1,60} was not found in jax\.local_devices\(\))", CheckpointMismatch),
    signature(
        r"(?P<detail>Sharding (?:passed to deserialization should be specified, concrete|of jax\.Array cannot be None)[^\n]{0,120})",
        CheckpointMismatch,
    ),
    signature(r"(?P<what>Cannot serialize host local (?:jax\.Array|arrays)[^\n]{0,60})", UnsupportedCombination),
    signature(
        r"(?P<detail>Missing \d+ keys in structure path|Tree structures? do(?:es)? not match[^\n]{0,60})[^\n]{0,60}",
        CheckpointMismatch,
    ),
    signature(r"TimeoutError: (?P<detail>Overall save timeout exceeded)", SlowStorage),
    signature(
        r"(?P<detail>(?:Barrier timed out|DEADLINE_EXCEEDED)[^\n]{0,300}(?:orbax|[Cc]heckpoint|AsyncSave|async_save|write_complete|commit_complete|save_(?:start|end|complete))[^\n]{0,120})",
        SlowStorage,
    ),
    signature(r"at least 2 data-parallel replicas are needed", WorldSizeConflict, what="data-parallel replicas"),
    signature(
        r"Error: (?P<why>Failed to interpret path (?P<path>\S{1,300}) as a |Could not recognize the checkpoint at |Checkpoint at \S{1,300} is a (?:flat|composite) "
        r"|All restore strategies failed for step \d+|Metadata path does not exist: )",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>Requested checkpointables: [^\n]{1,120} for loading were not found in the checkpoint"
        r"|produced a pytree structure that does not match (?:the caller template structure|restore_args)"
        r"|Tensor '\S{1,200}' not found in Safetensors checkpoint)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Directory path mismatch in multi-process save\. Process \d+ has path)", ClusterSpecInvalid),
    signature(r"(?P<detail>workers disagreed on scalar result: [^\n]{0,60})", ReplicasDiffer),
    signature(
        r"(?P<detail>Local checkpoint at step \d+ belongs to Process \d+, but current process is \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"Error: (?P<detail>Unknown field\(s\) \S{1,120} in state dict while restoring an instance of|ArrayMetadata Store contains no metadata for process_index="
        r"|OCDBT settings for parameter \S{1,200} don't match those for the rest|Different ext_metadata types param: |Unable to deserialize sharding)",
        CheckpointMismatch,
    ),
    signature(
        r"Attempted to create a barrier across a subset of processes, but the current process: \d+ was not present",
        CollectiveMismatch,
        what="the members of a barrier",
    ),
)
