# SPDX-License-Identifier: Apache-2.0
"""SYN006: several ranks changed the same file or folder at once."""

from __future__ import annotations

import re

from keepstep.model.facts import CorruptData, DownloadSeen, ExceptionRaised, SharedStateRace, StreamEnded
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    lazy_pattern,
    rule,
    shorten,
)

_MAKES = lazy_pattern(r"^(?:mkdir|makedirs|symlink|link|rename|replace|move|copytree)$")
_REMOVES = lazy_pattern(r"^(?:remove|unlink|rmtree|_rmtree\w*|rmdir|rename|replace|move|onerror|scandir)$")
_REMOVES_HERE = lazy_pattern(
    r"\bos\.(?:remove|unlink|rmdir|removedirs|rename|renames|replace)\(|\bshutil\.(?:rmtree|move)\(|\.(?:unlink|rmdir)\(|\.rename\(\s*[\w.]*(?:path|dir|file|tmp|new|dst|dest|target)"
)
"""These are built in, so no traceback frame has their name."""
_OF_TEMPFILE = lazy_pattern(r"No such file or directory: '(?:[^'\n]{0,200}/)?tmp[a-z0-9_]{8}'")
"""A name that ``tempfile`` made up in this run: another process made the file, and removed it or is on another host."""


@rule(
    id="SYN006",
    cause=Cause.SYNC_RACE_ON_SHARED_STATE,
    needs=(SharedStateRace, ExceptionRaised, CorruptData, StreamEnded),
    explains=(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.CHECKPOINT_CORRUPT_OR_MISSING,
        Cause.DATA_CORRUPT_OR_TRUNCATED,
    ),
)
def race_on_shared_state(seen: EvidenceSet) -> Findings:
    """Several ranks created, renamed or removed the same file, folder or cache at the same time.

    ## What it looks like
    `FileExistsError` from `makedirs` or `mkdir`, `FileNotFoundError` from `rename`, `remove` or `rmtree`,
    `Directory not empty`, `Text file busy`, a lock file of a compiled extension that never goes away.

    ## Why it happens
    Every rank runs the same script. All of them prepare the output folder, download, unpack, compile or clean
    up in the same shared place, and one comes second.

    ## How we know
    The failing call is one that fails only when another process was faster.

    ## What to do
    Do the work on one rank and let the others wait at a barrier, or make the call tolerant
    (`exist_ok=True`, `missing_ok=True`).

    ## When this is wrong
    A single process fails the same way when the folder is left over from an earlier run.
    """
    told = [e for e in seen.all(SharedStateRace) if not seen.survived(e)]
    raised = [e for e in seen.all(ExceptionRaised) if _race(seen, e) and not e.fact.logged and not seen.survived(e)]
    if not told and not raised:
        yield from _downloads(seen)
        yield from _building(seen)
        return
    evidence: tuple[Evidence[SharedStateRace] | Evidence[ExceptionRaised], ...] = (*told, *raised)
    what = told[0].fact.what if told else shorten(raised[0].fact.message or raised[0].fact.type, 60)
    yield Found(
        title=f"ranks collided on shared state: {what}",
        because="the call fails only if another process changed the same path at the same time",
        evidence=evidence,
        confidence=None if told else Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="prepare shared folders, caches and downloads on one rank and let the others wait",
                code="torch.distributed.barrier()",
            ),
            Fix(do="or make the call tolerant", code="os.makedirs(path, exist_ok=True)"),
        ),
    )


def _building(seen: EvidenceSet) -> Findings:
    """Every rank's last message is that it uses the folder of compiled extensions, which may hold a lock file."""
    ends = seen.all(StreamEnded)
    if not ends or seen.broken or not all(_COMES_TO_BUILD.search(e.fact.last) for e in ends):
        return
    yield Found(
        title="the run hung where it builds or waits for compiled extensions",
        because="a rank waits while there is a lock file in this folder, and a build that was killed leaves one behind",
        evidence=ends,
        confidence=Confidence.HYPOTHESIS,
        fixes=(
            Fix(do="look for a lock file", command="find ~/.cache/torch_extensions -name lock"),
            Fix(do="remove the folder, if no build is running", command="rm -rf ~/.cache/torch_extensions"),
        ),
    )


_COMES_TO_BUILD = lazy_pattern(r"Using\s+\S.{0,300} as PyTorch extensions root\.\.\.\s*$")


def _race(seen: EvidenceSet, evidence: Evidence[ExceptionRaised]) -> bool:
    fact = evidence.fact
    kind = fact.type.rpartition(".")[2]
    functions = [f.function for f in fact.frames]
    if kind == "FileExistsError":
        return "File exists" in fact.message and (
            not functions or len(seen.ranks) > 1 or any(_MAKES.match(f) for f in functions[:4] + functions[-4:])
        )
    if kind == "FileNotFoundError":
        return (
            any(_REMOVES.match(f) for f in functions[:3] + functions[-3:])
            or any(_REMOVES_HERE.search(line) for line in fact.code[-1:])
            or (evidence.who is not None and bool(_OF_TEMPFILE.search(fact.message)))
        )
    if kind in ("OSError", "PermissionError"):
        return bool(re.search(r"Directory not empty|Text file busy|Stale file handle", fact.message))
    return False


def _downloads(seen: EvidenceSet) -> Findings:
    """Ranks that downloaded one file to one path, and one of them found it damaged or missing."""
    by_path: dict[str, list[Evidence[DownloadSeen]]] = {}
    for each in seen.all(DownloadSeen):
        by_path.setdefault(each.fact.path, []).append(each)
    twice = [group for group in by_path.values() if len(group) > 1]
    broken = [
        *(e for e in seen.all(CorruptData) if not seen.survived(e)),
        *(
            e
            for e in seen.all(ExceptionRaised)
            if e.fact.type.endswith("FileNotFoundError") and any(path in e.fact.message for path in by_path)
        ),
    ]
    if not twice or not broken:
        return
    yield Found(
        title=f"ranks downloaded the same file at once: {shorten(twice[0][0].fact.path, 50)}",
        because="several processes downloaded it to the same path, and one then found it damaged or missing",
        evidence=(*twice[0][:3], broken[0]),
        ranks=tuple(n for n in (broken[0].who,) if n is not None),
        confidence=Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="download on one rank and let the others wait",
                code="if rank == 0: fetch()\ntorch.distributed.barrier()",
            ),
        ),
    )
