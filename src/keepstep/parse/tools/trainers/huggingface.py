# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer, Transformers, safetensors and the Hub: missing models, numbers, phases."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, RankVariableMissing
from keepstep.model.facts.data import ShapeMismatch
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, Phase, PhaseSeen
from keepstep.parse.scan.signature import signature


def _no_weights(match: re.Match[str]) -> Fact | None:
    """Not where diffusers only looked for the one kind of file, and takes the other."""
    if "while trying to fetch" in match.string[: match.start()]:
        return None
    return CheckpointUnreadable(path=match["path"], why="it has no weights")


_PATH = r"(?P<path>\S{1,300}?)"


SIGNATURES = (
    signature(
        r"Can't find a valid checkpoint at (?P<path>\S+)", CheckpointUnreadable, why="there is no valid checkpoint"
    ),
    signature(
        r"No valid checkpoint found in output directory \(?(?P<path>[^\s)]+)",
        CheckpointUnreadable,
        why="there is no valid checkpoint",
    ),
    signature(
        r"Unable to load weights from (?:pytorch )?checkpoint file for '(?P<path>[^'\n]{1,300})'", CheckpointUnreadable
    ),
    signature(r"Error no file named [^\n]{0,300}found in directory (?P<path>\S+)", _no_weights),
    signature(
        r"(?P<path>\S{1,200}) does not appear to have a file named (?:pytorch_model|model|tf_model|flax_model)[\w.\-]+",
        CheckpointUnreadable,
        why="it has no weights",
    ),
    signature(r"Can't load (?:weights|the model|model) for '(?P<path>[^'\n]{1,300})'", CheckpointUnreadable),
    signature(r"You set `ignore_mismatched_sizes` to `False`, thus raising an error", CheckpointMismatch),
    signature(r"We couldn't connect to 'https://(?P<peer>[\w.\-]+)'", ConnectFailed, why=Why.FAILED),
    signature(
        r"An error happened while trying to locate the files? on the Hub and we cannot find the (?:requested files|appropriate snapshot folder)",
        ConnectFailed,
        why=Why.FAILED,
        peer="huggingface.co",
    ),
    signature(
        r"outgoing traffic has been disabled[^\n]{0,60}(?:HF_HUB_OFFLINE|local_files_only)",
        ConnectFailed,
        why=Why.FAILED,
        peer="huggingface.co",
    ),
    signature(
        r"HTTPSConnectionPool\(host='(?P<peer>(?:huggingface\.co|cdn-lfs|hf-mirror\.com|[\w.\-]{0,60}hf\.co|s3|www\.modelscope\.cn)[\w.\-]{0,100})', port=\d+\): (?:Max retries exceeded|Read timed out)",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(
        r"Connection error, and we cannot find the requested (?:cached )?files? in the (?:disk|cached) (?:cache|path)",
        ConnectFailed,
        why=Why.FAILED,
        peer="huggingface.co",
    ),
    signature(
        r"HTTPError: 5\d\d Server Error: [^\n]{0,60}for url: https://(?P<peer>[\w.\-]+)", ConnectFailed, why=Why.FAILED
    ),
    signature(r"urlopen error \[Errno (?:110|60)\]", ConnectFailed, why=Why.TIMED_OUT),
    signature(r"urlopen error \[Errno (?:111|61)\]", ConnectFailed, why=Why.REFUSED),
    signature(r"urlopen error \[Errno (?:101|113)\]", ConnectFailed, why=Why.UNREACHABLE),
    signature(
        r"(?P<detail>Please correct the following DeepSpeed config values that mismatch TrainingArguments values)",
        ClusterSpecInvalid,
    ),
    signature(
        r"(?P<what>FP16 Mixed precision training with AMP or APEX [^\n]{0,120} can only be used on CUDA devices)",
        CudaMismatch,
    ),
    signature(
        r"(?P<what>has model type `[\w\-]{1,60}` but Transformers does not recognize this architecture)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>You can't train a model that has been loaded (?:in 8-bit or 4-bit precision on a different device|with `device_map='auto'` in any distributed mode))",
        UnsupportedCombination,
    ),
    signature(r"(?P<detail>ValueError: Your setup doesn't support bf16/gpu[^\n]{0,80})", ClusterSpecInvalid),
    signature(r"\*\*\*\*\* Running [Ee]valuation \*\*\*\*\*", PhaseSeen, phase=Phase.EVALUATING),
    signature(r"Saving model checkpoint to (?P<detail>\S+)", PhaseSeen, phase=Phase.SAVING),
    signature(r"Training completed\. Do not forget to share your model", PhaseSeen, phase=Phase.FINISHED),
    signature(r"'train_runtime': ", PhaseSeen, phase=Phase.FINISHED),
    signature(r"Loading model from (?P<detail>\S+checkpoint-\d+\S*)", PhaseSeen, phase=Phase.RESTORING),
    signature(
        r"Trying to set a tensor of shape (?P<detail>torch\.Size\(\[[\d, ]{0,60}\]\) in \S{1,80} \(which has shape torch\.Size\(\[[\d, ]{0,60}\]\)\))",
        CheckpointMismatch,
    ),
    signature(
        rf"Tried to load from {_PATH} but couldn't find a valid metadata file",
        CheckpointUnreadable,
        why="its metadata is missing",
    ),
    signature(
        rf"The safetensors archive passed at {_PATH} does not contain the valid metadata",
        CheckpointUnreadable,
        why="its metadata is missing",
    ),
    signature(
        rf"Error: {_PATH} does not appear to have a file named (?:config|adapter_config)\.json",
        CheckpointUnreadable,
        why="the model's configuration is missing",
    ),
    signature(
        rf"Error: {_PATH} is not a local folder and is not a valid model identifier listed on",
        CheckpointUnreadable,
        why="it is neither a folder here nor a model of the Hub",
    ),
    signature(
        r"It looks like the config file at '(?P<path>[^'\n]{1,300})' is not a valid JSON file",
        CheckpointUnreadable,
        why="its configuration is incomplete",
    ),
    signature(
        r"Consistency check failed: file should be of size \d+ but has size \d+",
        CheckpointUnreadable,
        why="a file of it was not fully downloaded",
    ),
    signature(
        r"Error: (?:Using [\w -]{2,30} only works in distributed training|We tried to initialize torch\.distributed for you, but it failed)",
        RankVariableMissing,
    ),
    signature(
        r"There was a specific connection error when trying to load",
        ConnectFailed,
        why=Why.FAILED,
        peer="huggingface.co",
    ),
    signature(r"Error while deserializing header: (?P<why>[^\n]{0,120})", CheckpointUnreadable),
    signature(r"(?P<why>MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeaderDeserialization)", CheckpointUnreadable),
    signature(r"(?P<why>incomplete metadata, file not fully covered)", CheckpointUnreadable),
    signature(
        r"Unable to create tensor, you should probably activate truncation and/or padding",
        ShapeMismatch,
        op="collation",
    ),
    signature(
        r"ArrowInvalid: Column \d+ named \S+ expected length (?P<left>\d+) but got length (?P<right>\d+)",
        ShapeMismatch,
        op="table",
    ),
    signature(
        r"(?:Error|Exception): (?P<what>There are currently no available devices found, must be one of|No GPU(?: or Intel XPU)? found\. A GPU [^\n]{0,20}is needed"
        r"|No available GPU device found|(?:cuda|npu|xpu|mlu)(?::\d+)? is not available, you should use device=)",
        CudaMismatch,
    ),
    signature(
        r"Error: (?P<what>--tf32 requires Ampere or a newer GPU arch|You cannot perform fine-tuning on purely quantized models"
        r"|The activation_checkpointing in FSDP config and the gradient_checkpointing in training arg can't be set to True simultaneously"
        r"|[^\n]{1,60} encounters hang issue with torch version < [\d.]{1,8})",
        UnsupportedCombination,
    ),
)
