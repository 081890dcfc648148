# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch, TensorFlow, Keras, JAX, Orbax, safetensors and fairseq: unreadable, or of another model."""

from __future__ import annotations

import re

from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.process import TaskNamed
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable, SlowStorage
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.parse.scan.signature import signature

_WEIGHTS = lazy_pattern(
    r"ckpt|checkpoint|snapshot|pytorch_model|global_step|mp_rank_|optim_states|weights|resume|\.metadata$"
    r"|\.(?:pt|pth|pyth|ptl|tar|safetensors|keras|h5|hdf5|msgpack|npz)$|model\.\w+$|(?:^|/)iter_\d+",
    re.I,
)
_DATA = lazy_pattern(r"dataset|/data/|train\.\w+$|val\.\w+$|annotations|\.py$|\.json$|\.ya?ml$|\.txt$|\.log$", re.I)


def _absent(match: re.Match[str]) -> CheckpointUnreadable | None:
    """A missing file, where its name is that of a checkpoint."""
    path = match["path"]
    named = _WEIGHTS.search(path)
    if not named or (_DATA.search(path) and not re.search(r"ckpt|checkpoint", path, re.I)):
        return None
    return CheckpointUnreadable(path=path, why="it is not there")


def _unopened(match: re.Match[str]) -> CheckpointUnreadable | None:
    """An HDF5 file that does not open, where its name is that of a checkpoint."""
    path = match["path"]
    return CheckpointUnreadable(path=path, why=match["why"]) if path and _WEIGHTS.search(path) else None


def _refused(match: re.Match[str]) -> CheckpointUnreadable | None:
    """A bucket that does not give out an object, where its name is that of a checkpoint."""
    path = match["path"]
    if not _WEIGHTS.search(path):
        return None
    why = "it is not there" if match["code"] == "404" else "access is denied"
    return CheckpointUnreadable(path=f"gs://{path}", why=why)


_ERROR = r"(?:FileNotFoundError|ValueError|AssertionError|RuntimeError|OSError|IOError|NotFoundError|Exception)"

SIGNATURES = (
    signature(
        r"don't know how to restore data location of (?P<type>[\w.]{3,60}) \(tagged with (?P<device>[\w:.-]{2,30})\)",
        lambda match: CheckpointUnreadable(
            why=f"it holds {match['type']} of the device {match['device']}, which is not known here"
        ),
    ),
    # torch.distributed.checkpoint gathers the errors of all ranks, each under its number
    signature(r"Traceback \(most recent call last\): \(RANK (?P<rank>\d+)\)", TaskNamed),
    # unreadable: torch
    signature(r"PytorchStreamReader failed (?P<why>[^\n]{0,160})", CheckpointUnreadable),
    signature(
        r"\[enforce fail at inline_container\.cc:\d+\] ?\. ?(?P<why>file (?:not found|in archive is not)[^\n]{0,80}|invalid header[^\n]{0,80})",
        CheckpointUnreadable,
    ),
    signature(
        r"unexpected EOF, expected \d+ more bytes\. The file might be corrupted",
        CheckpointUnreadable,
        why="it ends early",
    ),
    signature(
        r"storage has wrong (?:byte )?size: expected -?\d+ got -?\d+",
        CheckpointUnreadable,
        why="a tensor has the wrong size",
    ),
    signature(r"invalid header or archive is corrupted", CheckpointUnreadable, why="archive is corrupted"),
    signature(r"Invalid magic number; corrupt file\?", CheckpointUnreadable, why="not a checkpoint file"),
    signature(
        r"is a zip archive \(did you mean to use torch\.jit\.load\(\)\?\)|RuntimeError: Invalid protocol version: \d",
        CheckpointUnreadable,
        why="this torch does not know its format",
    ),
    signature(r"file in archive is not in a subdirectory", CheckpointUnreadable, why="not a checkpoint archive"),
    signature(r"Weights only load failed", CheckpointUnreadable, why="it holds objects that weights_only refuses"),
    # unreadable: safetensors
    signature(r"Error while deserializing header: (?P<why>[^\n]{0,120})", CheckpointUnreadable),
    signature(r"(?P<why>MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeaderDeserialization)", CheckpointUnreadable),
    signature(r"(?P<why>incomplete metadata, file not fully covered)", CheckpointUnreadable),
    # torch.distributed.checkpoint: the reader found no .metadata in the folder
    signature(
        r"^\s*assert metadata is not None\s*$|AssertionError: metadata is None",
        CheckpointUnreadable,
        why="the checkpoint folder has no metadata",
    ),
    # unreadable: pickle
    signature(
        r"UnpicklingError: (?P<why>invalid load key[^\n]{0,40}|pickle data was truncated|unpickling stack underflow)",
        CheckpointUnreadable,
    ),
    # unreadable: TensorFlow
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
        lambda match: CheckpointUnreadable(path=match["path"], why="a part that another host wrote is not there"),
    ),
    signature(
        r"(?P<path>[^\s:;']{1,300}ckpt[^\s:;']{0,60}_temp_[0-9a-f]{6,})[^\n]{0,20}; No such file or directory",
        CheckpointUnreadable,
        why="its temporary folder is not there",
    ),
    signature(
        r"(?P<path>[^\s;'\"]{1,300}(?:\.data-\d{5}-of-\d{5}|\.index|ckpt-\d+(?:\.meta)?|/saved_model\.pb(?:txt)?))[;:] "
        r"(?:No such file or directory|(?P<why>Stale file handle|Permission denied|Input/output error))",
        lambda match: CheckpointUnreadable(path=match["path"], why=match["why"] or "it is not there"),
    ),
    signature(
        r"(?P<path>[^\s;'\"]{1,300}/checkpoint(?:\.tmp\w{6,})?); (?P<why>Input/output error|Stale file handle|Permission denied|Operation not permitted)",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?:SavedModel file does not exist at: |Could not find trained model in model_dir: )(?P<path>\S{1,300})",
        CheckpointUnreadable,
        why="it is not there",
    ),
    signature(
        r"(?P<detail>Expected to restore a tensor of type \w+, got a tensor of type \w+ instead)", CheckpointMismatch
    ),
    signature(r"Could not find checkpoint or SavedModel at (?P<path>\S+)", CheckpointUnreadable, why="it is not there"),
    signature(r"Couldn't match files for checkpoint (?P<path>\S+)", CheckpointUnreadable, why="files are missing"),
    # unreadable: Keras and HDF5
    signature(
        r"File not found: filepath=(?P<path>\S+?)\.? Please ensure the file is an accessible",
        CheckpointUnreadable,
        why="it is not there",
    ),
    signature(
        r"Unable to (?:synchronously )?open (?:file|object) \((?P<why>[^\n]{0,60}?)[,:][^\n]{0,40}name = '(?P<path>[^'\n]{1,300})'",
        _unopened,
    ),
    signature(
        r"No (?:model|file or directory) (?:config )?found (?:in the file )?at (?P<path>\S+(?:h5|keras|hdf5|SavedModel)\S*)",
        CheckpointUnreadable,
        why="no model is there",
    ),
    signature(r"No file or directory found at (?P<path>\S+)", CheckpointUnreadable, why="it is not there"),
    # unreadable: JAX
    signature(
        r"Error (?:opening|reading) \\?\"(?:zarr3?|ocdbt|n5)\\?\" driver(?![^\n]{0,300} but received: |[^\n]{0,900}\[OS error: (?:Too many open|No space left|Disk quota|No locks|Function not|Operation not supp))|"
        r"NOT_FOUND: Error (?:opening|reading|writing) [^\n]{1,200} in OCDBT database",
        CheckpointUnreadable,
        why="tensorstore cannot open it",
    ),
    signature(
        r"(?P<why>No structure could be identified for the checkpoint)(?: at (?P<path>\S+))?", CheckpointUnreadable
    ),
    signature(
        r"(?P<why>Found incomplete checkpoint|is not a finalized checkpoint|Checkpoint [^\n]{0,200}incomplete)",
        CheckpointUnreadable,
    ),
    signature(
        r"FileNotFoundError: No steps found in (?P<path>\S{1,300})", CheckpointUnreadable, why="no step is there"
    ),
    signature(
        r"(?:FileNotFoundError|ValueError|StepNotFoundError): (?P<why>No (?:valid )?checkpoints? found (?:in|at|under)|Specified `step=None`, but no checkpoints were found)(?: (?P<path>\S{1,300}))?",
        CheckpointUnreadable,
    ),
    signature(
        r"Path is not a valid (?:T5X )?checkpoint: (?P<path>\S{1,300})", CheckpointUnreadable, why="not a checkpoint"
    ),
    signature(r"Invalid checkpoint path: (?P<path>\S{1,300})", CheckpointUnreadable, why="not a checkpoint"),
    signature(
        r"(?P<why>Requested directory for restore does not exist|Checkpoint structure file does not exist|Metadata file \(named \w+\) does not exist"
        r"|Individual parameter subdirectory not found|Found empty checkpoint PyTree metadata)(?: (?:at|in)(?: path:| directory=)? ?(?P<path>\S{1,300}))?",
        CheckpointUnreadable,
    ),
    signature(
        r"File not found: (?P<path>\S{1,300})\. In many cases, this results from copying a checkpoint",
        CheckpointUnreadable,
        why="a file of it is not there",
    ),
    signature(r"Save failed: (?P<why>\d+/\d+ params are missing(?: \.zarray)? in checkpoint)", CheckpointUnreadable),
    signature(r"(?P<why>No \"commit_success\.txt\" found on this \"_gda\" directory)", CheckpointUnreadable),
    signature(r"No step path found with name=(?P<path>\S{1,100})", CheckpointUnreadable, why="no such step"),
    # absent files by their names
    signature(
        r"[Nn]o such file or directory: b?['\"](?P<path>[^'\"\n]{1,400})['\"]",
        _absent,
    ),
    signature(
        rf"{_ERROR}: [^\n]{{0,60}}[Cc]heckpoint[^\n]{{0,300}}?(?:not found|does not exist|doesn't exist|cannot be found|could not be found|is missing)",
        CheckpointUnreadable,
        why="it is not there",
    ),
    signature(r"(?:IOError|OSError): Model file not found: (?P<path>\S+)", CheckpointUnreadable, why="it is not there"),
    signature(
        r"(?:IOError|OSError): (?P<path>\S+) is not a checkpoint file", CheckpointUnreadable, why="not a checkpoint"
    ),
    signature(
        r"(?:IOError|OSError|FileNotFoundError): (?P<path>\S+\.(?:pth|pt|ckpt)) (?:is not a checkpoint|can not be found)[^\n]{0,20}",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?P<why>(?:\[deepspeed\] )?(?:[Ff]ailed|[Uu]nable) to (?:resume|load|restore)[^\n]{0,30} (?:from )?(?:the )?checkpoints?)(?: (?:at|from))? (?P<path>\S{1,300})",
        CheckpointUnreadable,
    ),
    signature(
        r"Error: (?P<why>Can't find a valid checkpoint at|No valid checkpoint found in(?: output directory)?)(?: \(?(?P<path>\S{1,300}?)\)?)?(?:$|\s)",
        CheckpointUnreadable,
    ),
    # of another model: torch
    signature(r"Error\(s\) in loading state_dict for (?P<detail>[\w.]+)", CheckpointMismatch),
    signature(r"(?P<detail>size mismatch for [\w.\-]+): copying a param with shape", CheckpointMismatch),
    signature(r"(?P<detail>Missing key\(s\) in state_dict: [^\n]{0,100})", CheckpointMismatch),
    signature(r"(?P<detail>Unexpected key\(s\) in state_dict: [^\n]{0,100})", CheckpointMismatch),
    signature(r"While copying the parameter named (?P<detail>\S+), whose dimensions", CheckpointMismatch),
    signature(
        r"(?P<detail>loaded state dict contains a parameter group that doesn't match the size of optimizer's group)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>loaded state dict has a different number of parameter groups)", CheckpointMismatch),
    signature(r"Missing key in checkpoint state_dict: (?P<detail>\S+)", CheckpointMismatch),
    signature(
        r"(?P<detail>(?:Global|Local|Shard) shape mismatch for loaded \([^\n]{0,60}?\) and expected \([^\n]{0,60}?\) tensor for key \S+)",
        CheckpointMismatch,
    ),
    signature(r"KeyError: MetadataIndex\(fqn='(?P<detail>[^'\n]{1,200})'", CheckpointMismatch),
    signature(r"(?P<detail>Size mismatch between saved [^\n]{0,80} and current[^\n]{0,80})", CheckpointMismatch),
    signature(r"(?P<detail>mismatch sizes torch\.Size\([^)\n]{0,60}\) vs torch\.Size[^\n]{0,60})", CheckpointMismatch),
    signature(
        r"Could not find (?:FQN|shard at '[^'\n]{0,60}' for FQN): '(?P<detail>[^'\n]{1,200})'",
        CheckpointMismatch,
    ),
    signature(
        r"Cannot load model parameters from checkpoint (?P<detail>\S+);? ?please ensure that the architectures match",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Optimizer does not match; please reset the optimizer)", CheckpointMismatch),
    signature(
        r"KeyError: ['\"](?P<detail>(?:module\.|model\.|_orig_mod\.)?[\w.]+\.(?:weight|bias|running_mean|running_var|num_batches_tracked))['\"]",
        CheckpointMismatch,
    ),
    # of another model: TensorFlow and Keras
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
    signature(r"(?P<detail>Layer count mismatch when loading weights from file[^\n]{0,80})", CheckpointMismatch),
    signature(
        r"(?P<detail>[Yy]ou are trying to load a weight file containing \d+ (?:saved )?layers into a model with \d+ layers)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Weight count mismatch for (?:layer|top-level)[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer #\d+ \(named [^\n]{0,120}expects \d+ weight\(s\), but the saved weights have)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Layer #\d+ \(named [^\n]{0,160}but the saved weight has shape)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Shape mismatch in (?:layer #|model for top-level weight)[^\n]{0,120})",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>A total of \d+ objects could not be loaded)", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer '[^'\n]{0,100}' expected \d+ (?:variables|input\(s\)|weights), but received \d+ (?:variables|saved)[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The shape of the target variable and the shape of the target value in `variable\.assign\(value\)` must match)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>You called `set_weights\(weights\)` on layer [^\n]{0,160})", CheckpointMismatch),
    signature(
        r"(?P<detail>Layer (?:\S{1,80} )?weight shape \([^)\n]{0,60}\) (?:is )?not compatible with provided weight shape[^\n]{0,60})",
        CheckpointMismatch,
    ),
    # of another model: JAX
    signature(r"(?P<detail>target dict keys and state dict keys do not match[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<detail>(?:Initializer expected to generate shape|[Ii]nconsistent shapes between value and initializer)[^\n]{0,160})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>User-provided restore item and on-disk value metadata tree structures do not match)",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Requested shape: [^\n]{0,60}is not compatible with the stored shape[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>For parameter \"[^\"\n]{0,60}\" in \"[^\"\n]{0,120}\", the given initializer is expected to generate shape[^\n]{0,120})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>The (?:field names of the state dict and the named tuple|size of the list and the state dict) do not match[^\n]{0,100})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Shape of `?[^\s`]{1,160}`? in checkpoint [(\[][^)\]\n]{0,60}[)\]] does not match expected[^\n]{0,60})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<why>Unpack failed: incomplete input|msgpack\.exceptions\.(?:ExtraData|OutOfData|FormatError|StackError))",
        CheckpointUnreadable,
    ),
    signature(
        r"(?P<detail>sharding passed to deserialization should be specified)",
        CheckpointMismatch,
    ),
    signature(
        r"ScopeParamNotFoundError: (?P<detail>Could not find parameter named [^\n]{0,80})",
        CheckpointMismatch,
    ),
    signature(
        r"(?P<detail>Missing keys? in checkpoint|(?:Parameter|Variable|Key) \S{1,80} not found in checkpoint)(?![^\n]{0,30}(?:skip|ignor|init))",
        CheckpointMismatch,
    ),
    signature(
        r"Error: DATA_LOSS: Error (?:reading|decoding|opening) (?P<path>\S{1,160})",
        CheckpointUnreadable,
    ),
    signature(r"(?P<detail>Unmapped tensor keys exist: [^\n]{0,100})", CheckpointMismatch),
    signature(
        r"(?P<detail>Failed to restore optimizer state, path \S{1,120} is not present[^\n]{0,60})", CheckpointMismatch
    ),
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
    signature(
        r"(?P<detail>Checkpoints containing a multiprocess array need to be restored with a target)", CheckpointMismatch
    ),
    signature(r"(?P<detail>Custom node type mismatch: expected type: [^\n]{0,120})", CheckpointMismatch),
    signature(r"(?P<what>Cannot serialize host local (?:jax\.Array|arrays)[^\n]{0,60})", UnsupportedCombination),
    signature(
        r"(?P<what>Target contains a multiprocess array should be saved/restored with a GlobalAsyncCheckpointManager)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<detail>Trying to restore (?:optimizer state|training state|callback state) but checkpoint contains only the model)",
        CheckpointMismatch,
    ),
    signature(
        r"Error: (?P<detail>[^\n]{0,40}[Cc]heckpoint[^\n]{0,80}\d+ (?:layers|shards|ranks|files|devices|partitions|GPUs)[^\n]{0,40}\b(?:but|while|not)\b[^\n]{0,60}\d+)",
        CheckpointMismatch,
    ),
    signature(r"(?P<detail>Dict key mismatch; expected keys[^\n]{0,120})", CheckpointMismatch),
    signature(
        r"(?P<detail>Missing \d+ keys in structure path|Tree structures? do(?:es)? not match[^\n]{0,60})[^\n]{0,60}",
        CheckpointMismatch,
    ),
    signature(r"KeyError: ['\"](?P<detail>[^'\"\n]{1,120}) is not a file in the archive", CheckpointMismatch),
    # of another model: programs that check for themselves
    signature(
        r"Error: (?P<detail>(?=([^\n]{0,200}?(?=[Cc.])(?:[Cc]heckpoint|ckpt|\.npz|\.pth?|\.h5|\.safetensors|\.msgpack)\b))\2(?=([^\n]{0,160}?\b(?:shape|size|key|name|architecture)s?\b))\3"
        r"[^\n]{0,80}(?:do(?:es)? not match|mismatch|\bwants?\b|\bexpect\w*|\bdiffers?\b|not in the model|incompatible)[^\n]{0,60})",
        CheckpointMismatch,
    ),
    # slow
    signature(
        r"TimeoutError: (?P<detail>Timed out while waiting for async_(?:commit|write)_complete barrier)", SlowStorage
    ),
    signature(r"TimeoutError: (?P<detail>Overall save timeout exceeded)", SlowStorage),
    signature(
        r"TimeoutError: (?P<detail>ChainedFuture completed \d+/\d+ futures but timed out after [\d.]+ seconds)",
        SlowStorage,
    ),
    signature(r"nfs: server (?P<detail>\S+) not responding", SlowStorage),
    signature(r"aws_logging\.cc:\d+\] (?P<detail>Curl returned error code 28)", SlowStorage),
    signature(
        r"(?P<detail>(?:Barrier timed out|DEADLINE_EXCEEDED)[^\n]{0,300}(?:orbax|[Cc]heckpoint|AsyncSave|async_save|write_complete|commit_complete|save_(?:start|end|complete))[^\n]{0,120})",
        SlowStorage,
    ),
    signature(
        r"(?P<detail>[Cc]heckpoint(?:ing)? (?:save|saving|write|upload)[^\n]{0,60}timed out[^\n]{0,60})",
        SlowStorage,
    ),
)
