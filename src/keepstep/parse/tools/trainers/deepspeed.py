# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: its launcher, configuration checks, loss scaler, op builder and checkpoints."""

from __future__ import annotations

import re
import signal

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.model.facts.process import ProcessExited
from keepstep.parse.scan.signature import signature

_LAST_IS_FIRST = lazy_pattern(r"'--local_rank(?:=|', ?')0'")


def _ended(match: re.Match[str]) -> ProcessExited | None:
    """The command in this line is always that of the last local rank: it names a rank only if there is just one."""
    code = int(match["code"])
    if code == 0:
        return None
    try:
        name = signal.Signals(-code).name if code < 0 else None
    except ValueError:
        name = None
    alone = bool(_LAST_IS_FIRST.search(match.string[: match.start()]))
    return ProcessExited(reporter="DeepSpeed's launcher", code=code, signal=name, local_rank=0 if alone else None)


def _batch_sizes(match: re.Match[str]) -> Fact:
    """No micro batch fits a batch that the world does not divide; otherwise the counts are wrong."""
    if match["batch"] is None:
        return WorldSizeConflict(what="train_batch_size")
    batch, world = int(match["batch"]), int(match["world"])
    if world and batch % world:
        return BatchNotDivisible(batch=match["batch"], parts=match["world"])
    product = f"{match['micro']} * {match['steps']} * {match['world']}"
    return WorldSizeConflict(what="train_batch_size", expected=match["batch"], seen=product)


SIGNATURES = (
    # launcher
    signature(r"exits with return code = (?P<code>-?\d+)", _ended),
    # sizes
    signature(
        r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size"
        r"(?: ?(?P<batch>\d+) ?!= ?(?P<micro>\d+) ?\* ?(?P<steps>\d+) ?\* ?(?P<world>\d+))?",
        _batch_sizes,
    ),
)
