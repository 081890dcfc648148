# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's checkpoints: files it cannot write, find or read, and tensors that do not fit the model."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.sync import SharedStateRace
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.parse.scan.signature import signature
from keepstep.parse.tools.programs.checkpoints import WEIGHTS


def _refused(match: re.Match[str]) -> CheckpointUnreadable | None:
    """A bucket that denies an object whose name is that of a checkpoint."""
    path = match["path"]
    if not WEIGHTS.search(path):
        return None
    why = "it does not exist" if match["code"] == "404" else "access is denied"
    return CheckpointUnreadable(path=f"gs://{path}", why=why)


_OF_CHECKPOINTS = (
    r"(?:\.ckpt|ckpt-|[/\\]checkpoint\b|tempstate|variables_temp|_temp[/\\_]|saved_model|\.h5\b|\.keras\b)"
)


def _moved(match: re.Match[str]) -> Fact:
    return SharedStateRace(what="a checkpoint file could not be moved into place", path=match["path"].strip())


SIGNATURES = (
    signature(
        r"Unsuccessful TensorSliceReader constructor: (?P<why>[^\n]{0,160}?)(?: (?:for|on) (?P<path>[^\s:]+))?(?::| :|$|\n)",
        CheckpointUnreadable,
    ),
    signature(
        r"HTTP response code (?P<code>40[34])\b[^\n]{0,2000}when (?:reading|resuming upload|uploading|initiating an upload to|renaming|deleting|retrieving)[^\n]{0,30}?gs://(?P<path>\S{1,400})",
        _refused,
    ),
    signature(
        r"tensor_name = (?P<detail>\S{1,200}; (?:expected dtype|shape in shape_and_slice spec) [^\n]{0,120})(?:does not (?:equal|match)|is not)",
        CheckpointMismatch,
    ),
    signature(r"Failed to find any matching files for (?P<path>\S+)", CheckpointUnreadable, why="no such files"),
    signature(r"Unable to open table file (?P<path>\S+): (?P<why>[^\n]{0,160})", CheckpointUnreadable),
    signature(
        r"(?P<why>Read (?:less|fewer) bytes than requested)\s{1,20}(?:\[\[)?\{?\{?[Nn]ode:? [^\n]{0,20}?(?:checkpoint_initializer|\w*RestoreV2|save/)",
        CheckpointUnreadable,
    ),
    signature(r"(?P<why>not an sstable \(bad magic number\))", CheckpointUnreadable),
    signature(
        r"(?P<why>Checksum does not match: stored \d+ vs\. calculated on the restored bytes)", CheckpointUnreadable
    ),
    signature(
        r"TensorBundle at (?P<path>\S{1,300})(?!\S)[^\n]{0,120}(?P<why>Checksum does not match|truncated|[Cc]orrupt)",
        CheckpointUnreadable,
    ),
    signature(r"(?P<why>Invalid size in bundle entry)", CheckpointUnreadable),
    signature(
        r"The passed save_path is not a valid checkpoint: (?P<path>\S+)", CheckpointUnreadable, why="no such checkpoint"
    ),
    signature(r"Can't load save_path when it is None", CheckpointUnreadable, why="no checkpoint was found"),
    signature(
        r"(?P<path>[^\s:;']{1,300}_temp(?:_[0-9a-f]{6,})?/part-\d{5}-of-\d{5}[^\s;']{0,60})(?:;? No such file or directory)?",
        lambda match: CheckpointUnreadable(path=match["path"], why="a part that another host wrote is missing"),
    ),
    signature(
        r"(?P<path>[^\s:;']{1,300}ckpt[^\s:;']{0,60}_temp_[0-9a-f]{6,})[^\n]{0,20}; No such file or directory",
        CheckpointUnreadable,
        why="its temporary folder is missing",
    ),
    signature(
        r"(?P<path>[^\s;'\"]{1,300}(?:\.data-\d{5}-of-\d{5}|\.index|ckpt-\d+(?:\.meta)?|/saved_model\.pb(?:txt)?))[;:] "
        r"(?:No such file or directory|(?P<why>Stale file handle|Permission denied|Input/output error))",
        lambda match: CheckpointUnreadable(path=match["path"], why=match["why"] or "it does not exist"),
    ),
    signature(
        r"(?P<path>[^\s;'\"]{1,300}/checkpoint(?:\.tmp\w{6,})?); (?P<why>Input/output error|Stale file handle|Permission denied|Operation not permitted)",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?:SavedModel file does not exist at: |Could not find trained model in model_dir: )(?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="it does not exist",
    ),
    signature(
        r"(?P<detail>Expected to restore a tensor of type \w+, got a tensor of type \w+ instead)", CheckpointMismatch
    ),
    signature(
        r"Could not find checkpoint or SavedModel at (?P<path>\S{1,300}?)\.?(?:\s|$)",
        CheckpointUnreadable,
        why="it does not exist",
    ),
    signature(r"Couldn't match files for checkpoint (?P<path>\S+)", CheckpointUnreadable, why="files are missing"),
    signature(r"Key (?P<detail>\S+) not found in checkpoint", CheckpointMismatch),
    signature(r"Tensor name \\?\"?(?P<detail>[^\s\"\\]+)\\?\"? not found in checkpoint files", CheckpointMismatch),
    signature(
        r"Assign requires shapes of both tensors to match\. (?P<detail>lhs shape ?= ?\[[^\]\n]{0,60}\] rhs shape ?= ?\[[^\]\n]{0,60}\])",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>mismatch between the current graph and the graph from the checkpoint)", CheckpointMismatch),
    signature(
        r"(?P<detail>a Variable name or other graph key that is missing from the checkpoint)", CheckpointMismatch
    ),
    signature(
        r"(?P<detail>Received incompatible tensor with shape [^\n]{0,60}when attempting to restore variable[^\n]{0,80})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Tensor's shape \([^)\n]{0,60}\) is not compatible with supplied shape[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"AssertionError: (?P<detail>Unresolved object in checkpoint[^\n]{0,80}|Some Python objects were not bound to checkpointed values[^\n]{0,40}|Nothing (?:except the root object|to load)[^\n]{0,60}|Object not assigned a value from checkpoint[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"AssertionError: (?P<detail>Found \d+ Python objects that were not bound to checkpointed values)",
        CheckpointMismatch,
    ),
    signature(r"aws_logging\.cc:\d+\] (?P<detail>Curl returned error code 28)", SlowStorage),
    signature(
        r"Couldn't find 'checkpoint' file or checkpoints in given directory (?P<path>\S{1,300})", CheckpointUnreadable
    ),
    signature(r"Invalid checkpoint state loaded from (?P<path>\S{1,300})", CheckpointUnreadable),
    signature(
        r"Error: (?P<detail>Checkpoint in \S{1,300} not an object-based checkpoint|Some objects had attributes which were not restored"
        r"|Unused attributes in these objects \(the attributes exist in the checkpoint but were not restored\)|Unresolved slot restorations"
        r"|Object not restored: |Object \S{1,200} not assigned a value from checkpoint|Trackable \S{1,200} does not expect checkpointed values"
        r"|The expected node_id: \d+ to Trackable \S{1,200} to restore does not exist in the checkpoint"
        r"|Forward compatibility load error: Unable to load checkpoint saved in future version)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<why>At least one prefix checkpoint file must exist, but none existed|Invalid checkpoint state loaded from|SavedModel checkpoint "
        r"(?:does not contain object graph|object graph was not the correct type)|Invalid H5 file, expected (?:Group|Dataset)\b|"
        r"Unable to load model\. Filepath is not an hdf5 file|No model (?:config )?found in (?:the file at|config file))",
        CheckpointUnreadable,
    ),
    signature(r"Error: (?P<why>Could not restore saved variable: \S{1,200})", CheckpointUnreadable),
    signature(r"(?P<why>Read (?:less|fewer) bytes than requested)[^\n]{0,160}RestoreV2", CheckpointUnreadable),
    signature(
        r"(?P<detail>MetaGraphDef associated with tags [^\n]{1,80} could not be found in SavedModel)",
        CheckpointMismatch,
    ),
    # tf.train.init_from_checkpoint, and what Mesh TensorFlow copied of it
    signature(
        r"(?P<detail>Shape of variable \S{1,300} \([^\n]{1,80}\) doesn't match with shape of tensor \S{1,300} \([^\n]{1,80}\)) from checkpoint reader",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Tensor \S{1,300}(?: \(\S{1,300} in \S{1,300}\))? is not found in \S{1,300} checkpoint)\b",
        CheckpointMismatch,
    ),
    # tf.train.Checkpoint.restore
    signature(
        r"(?P<detail>Size for (?:saveable_objects|serialized_tensors) for Trackable: \d+ did not match (?:the )?size for serialized_tensors for checkpoint: \d+)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Trackable [^\n]{1,300} (?:expects|does not expect) checkpointed values but checkpoint (?:does not contain|contains) serialized tensors)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>to Trackable [^\n]{1,300} to restore does not exist in the checkpoint)", CheckpointMismatch),
    signature(
        r"(?P<detail>Forward compatibility load error: Unable to load checkpoint saved in future version of TensorFlow)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Nothing except the root object matched a checkpointed value)", CheckpointMismatch),
    signature(
        r"Error: Parent directory of (?P<path>\S{1,300}) doesn't exist, can't save",
        CheckpointUnreadable,
        why="its folder does not exist",
    ),
    signature(
        r"Error: +Failed to create a (?:new )?directory: (?P<path>[^\n;]{1,300})",
        CheckpointUnreadable,
        why="its folder could not be created",
    ),
    signature(
        rf"(?:PermissionDenied|FailedPrecondition|NotFound|Unknown)Error: +(?!\s)(?=[^\n;]{{0,300}}{_OF_CHECKPOINTS})(?P<path>[^\n;]{{1,420}}); "
        r"(?P<why>Permission denied|Read-only file system|Is a directory|Not a directory|Operation not permitted)",
        CheckpointUnreadable,
    ),
    signature(
        rf"Error: +Failed to rename: (?=[^\n]{{0,300}}{_OF_CHECKPOINTS})[^\n]{{0,600}}? to: (?P<path>[^\n;]{{1,300}}?)(?: : |; |$)",
        _moved,
    ),
)
