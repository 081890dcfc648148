# SPDX-License-Identifier: Apache-2.0
"""RES005: a disk, a quota or the inodes ran out."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, DiskFull, Evidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who

_INFERRED = ("PytorchStreamWriter", "inline_container", "iostream error", "cannot be opened", "write(): fd ")


@rule(
    id="RES005",
    cause=Cause.RESOURCE_DISK_FULL,
    needs=(DiskFull,),
    explains=(*OF_A_DEAD_RANK, Cause.CHECKPOINT_CORRUPT_OR_MISSING, Cause.CHECKPOINT_SLOW_IO_TIMEOUT),
)
def disk_full(seen: EvidenceSet) -> Findings:
    """A write failed because the disk, a quota or the inodes ran out.

    ## What it looks like
    `[Errno 28] No space left on device`, `[Errno 122] Disk quota exceeded`, `PytorchStreamWriter failed
    writing file`, `basic_ios::clear: iostream error`, a pod evicted for ephemeral storage.

    ## Why it happens
    The checkpoints of all epochs are kept; every rank writes its own; a cache in the home directory or in the
    container's small root file system fills up; or there is space but no inode left.

    ## How we know
    The system refused a write with ENOSPC or EDQUOT. PyTorch's own writer does not pass the error code on: then its
    failed write is the evidence, and the conclusion is supported, not established.

    ## What to do
    Free space at that path, or write elsewhere, and keep fewer checkpoints.

    ## When this is wrong
    `/dev/shm` also fails with ENOSPC; that is a finding of its own if the message shows it.
    """
    full = once_a_line(e for e in seen.all(DiskFull) if not seen.survived(e))
    if not full:
        return
    quota = any(e.fact.quota for e in full)
    path = next((e.fact.path for e in full if e.fact.path), None)
    inferred = all(any(word in e.quote for word in _INFERRED) for e in full)
    what = "quota was exceeded" if quota else "disk was full"
    yield Found(
        title=f"the {what} when {who(full)} wrote{f' {path}' if path else ''}",
        because=(
            "a checkpoint could not be written completely; usually, the disk or quota is full"
            if inferred
            else f"the system refused a write because the {what}"
        ),
        evidence=full,
        ranks=None if inferred else _refused(full),
        confidence=Confidence.SUPPORTED if inferred else None,
        fixes=(
            Fix(do="check space and inodes where it writes", command="df -h . && df -i ."),
            Fix(do="check your quota", command="quota -s"),
            Fix(do="delete old checkpoints and keep only the last few", safety=Safety.NEEDS_OWNER),
            Fix(
                do="move caches and temporary files to a larger disk",
                command="export TMPDIR=/scratch/tmp HF_HOME=/scratch/hf",
            ),
        ),
    )


def _refused(full: tuple[Evidence[DiskFull], ...]) -> tuple[int, ...] | None:
    """The ranks that were refused a write; a file that others found cut off is what followed."""
    clear = [e for e in full if not any(word in e.quote for word in _INFERRED)]
    return tuple(dict.fromkeys(e.who for e in clear if e.who is not None)) or None
