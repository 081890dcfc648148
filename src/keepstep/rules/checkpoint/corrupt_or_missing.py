# SPDX-License-Identifier: Apache-2.0
"""CKP001: a checkpoint is missing, truncated or damaged."""

from __future__ import annotations

import shlex

from keepstep.model.facts import CheckpointMismatch, CheckpointUnreadable, ExceptionRaised, Fact
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import ranks_told, reads_checkpoint, short_type
from keepstep.rules.asking.unpickling import of_a_parent, of_input, of_ranks


@rule(
    id="CKP001",
    cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING,
    needs=(CheckpointUnreadable, ExceptionRaised),
    explains=(
        *SEEN_BY_OTHER_RANKS,
        Cause.DATA_CORRUPT_OR_TRUNCATED,
        Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE,
        Cause.USER_CODE_EXCEPTION,
        Cause.WORKER_PARAMETER_SERVER_LOST,
    ),
)
def corrupt_or_missing(seen: EvidenceSet) -> Findings:
    """A checkpoint, or a part of one, is missing, truncated or damaged.

    ## What it looks like
    `PytorchStreamReader failed reading zip archive`, `Unsuccessful TensorSliceReader constructor: Failed to
    find any matching files`, `unexpected EOF ... The file might be corrupted`, safetensors header errors,
    `No such file or directory` for a checkpoint.

    ## Why it happens
    The run that wrote it was killed or ran out of disk space while writing; a download was interrupted; or the file
    is on one host's local disk, and a rank (or parameter server) on another host looks for it there.

    ## How we know
    The reader of checkpoints itself failed, or a file with a checkpoint's name is not there.

    ## What to do
    Resume from the previous checkpoint; keep checkpoints on storage that all hosts share; write to a temporary
    name and rename.

    ## When this is wrong
    Programs that look for a checkpoint and start from scratch without one print similar lines and continue. Input
    files are pickled too, and so is what ranks send each other or a parent sends its spawned child; where the frames
    show that, we do not call it a checkpoint.
    """
    sure = [
        e
        for e in seen.all(CheckpointUnreadable)
        if not seen.survived(e) and not of_ranks(seen, e) and not of_input(seen, e) and not of_a_parent(seen, e)
    ]
    by_frames = [
        e
        for e in seen.all(ExceptionRaised)
        if reads_checkpoint(e.fact) and not seen.merely_logged(e) and not seen.survived(e)
    ]
    others = [e for e in seen.all(CheckpointMismatch) if not seen.survived(e)]
    if not sure and not by_frames:
        return
    if others and not sure:
        return
    evidence: tuple[Evidence[Fact], ...] = (*sure, *by_frames)
    path = next((e.fact.path for e in sure if e.fact.path), None)
    why = next((e.fact.why for e in sure if e.fact.why), None)
    if not sure:
        why = f"{short_type(by_frames[0].fact)} while reading it"
    name = shorten(path, 60) if path else "a checkpoint"
    yield Found(
        title=f"{name} could not be read" + (f": {shorten(why.strip(' :'), 70)}" if why else ""),
        because="the reader of the checkpoint failed: the file is missing, incomplete or not a checkpoint",
        evidence=evidence,
        ranks=ranks_told(seen, evidence),
        confidence=None if sure else Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="check on each rank's host that the file is there and has its full size",
                command=f"ls -l {shlex.quote(path or 'CHECKPOINT')}",
            ),
            Fix(do="resume from the previous checkpoint, or download the file again"),
            Fix(do="keep checkpoints on storage that every host and parameter server sees at the same path"),
        ),
    )
