# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer, Transformers, safetensors and the Hub: missing models, numbers, phases."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.training import CheckpointUnreadable
from keepstep.parse.scan.signature import signature


def _no_weights(match: re.Match[str]) -> Fact | None:
    """Not where diffusers only looked for the one kind of file, and takes the other."""
    if "while trying to fetch" in match.string[: match.start()]:
        return None
    return CheckpointUnreadable(path=match["path"], why="it has no weights")


SIGNATURES = (signature(r"Error no file named [^\n]{0,300}found in directory (?P<path>\S+)", _no_weights),)
