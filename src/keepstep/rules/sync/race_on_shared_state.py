# SPDX-License-Identifier: Apache-2.0
"""SYN006: several ranks changed the same file or folder at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.data import CorruptData, DownloadSeen
from keepstep.core.facts.process import ExceptionRaised
from keepstep.core.facts.sync import SharedStateRace
from keepstep.core.facts.training import StreamEnded
from keepstep.core.finding import Confidence, Fix, Found
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.core.rule import rule
from keepstep.core.wording import shorten

_MAKES = lazy_pattern(r"^(?:mkdir|makedirs|symlink|link|rename|replace|move|copytree)$")
_REMOVES = lazy_pattern(r"^(?:remove|unlink|rmtree|_rmtree\w*|rmdir|rename|replace|move|onerror|scandir)$")
_REMOVES_HERE = lazy_pattern(
    r"\bos\.(?:remove|unlink|rmdir|removedirs|rename|renames|replace)\(|\bshutil\.(?:rmtree|move)\(|\.(?:unlink|rmdir)\(|\.rename\(\s*[\w.]*(?:path|dir|file|tmp|new|dst|dest|target)"
)
"""These are built in, so that no frame of a traceback bears their name."""
_OF_TEMPFILE = lazy_pattern(r"No such file or directory: '(?:[^'\n]{0,200}/)?tmp[a-z0-9_]{8}'")
"""A name that ``tempfile`` made up in this run: another process made the file and has removed it, or is on another machine."""


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
def race_on_shared_state(seen: EvidenceSet) -> Iterator[Found]:
    """Several ranks made, renamed or removed the same file, folder or cache at the same time.

    ## What it looks like
    `FileExistsError` from `makedirs` or `mkdir`, `FileNotFoundError` from `rename`, `remove` or `rmtree`,
    `Directory not empty`, `Text file busy`, a lock file of a compiled extension that never goes away.

    ## Why it happens
    Every rank runs the same script: all of them prepare the output folder, download, unpack, compile or clean
    up in the same shared place, and one comes second.

    ## How we know
    The failing call is one that only fails when somebody else was faster.

    ## What to do
    Do it on one rank and let the others wait at a barrier, or make the call tolerant
    (`exist_ok=True`, `missing_ok=True`).

    ## When this is wrong
    A single process also fails so when the folder is left over from an earlier run.
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
        because="the call fails only if another process changed the same place at the same time",
        evidence=evidence,
        confidence=None if told else Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="prepare shared folders, caches and downloads on one rank and let the others wait",
                command="torch.distributed.barrier()",
            ),
            Fix(do="or make the call tolerant", command="os.makedirs(path, exist_ok=True)"),
        ),
    )


def _building(seen: EvidenceSet) -> Iterator[Found]:
    """Every rank's last words are that it comes to the folder of compiled extensions, where a lock file may lie."""
    ends = seen.all(StreamEnded)
    if not ends or seen.broken or not all(_COMES_TO_BUILD.search(e.fact.last) for e in ends):
        return
    yield Found(
        title="the run stands still where compiled extensions are built or waited for",
        because="a rank that finds a lock file in this folder waits until it is gone; a killed build leaves it behind",
        evidence=ends,
        confidence=Confidence.HYPOTHESIS,
        fixes=(
            Fix(do="see whether a lock file lies there", command="find ~/.cache/torch_extensions -name lock"),
            Fix(do="if no build is running, remove the folder", command="rm -rf ~/.cache/torch_extensions"),
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


def _downloads(seen: EvidenceSet) -> Iterator[Found]:
    """Ranks that fetched one file to one place, and one of them found it damaged or gone."""
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
        because="more than one process fetched it to the same place, and one then found it damaged or gone",
        evidence=(*twice[0][:3], broken[0]),
        ranks=tuple(n for n in (broken[0].who,) if n is not None),
        confidence=Confidence.SUPPORTED,
        fixes=(
            Fix(
                do="download on one rank and let the others wait",
                command="if rank == 0: fetch()\ntorch.distributed.barrier()",
            ),
        ),
    )
