# SPDX-License-Identifier: Apache-2.0
"""Reports made by hand, for the tests of renderers."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.model.evidence import Coverage, CoverageState, Evidence, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.process import ExceptionRaised, Frame, ProcessExited
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.model.finding import Confidence, Finding, Fix, Role, Safety, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.model.report import Report, RuleCrash, Verdict

NOON = 1763208000.0  # 2025-11-15 12:00:00 UTC


def piece(rank: int | None, fact: Fact, quote: str, source: str, line: int | None, at: float | None) -> Evidence[Fact]:
    writer = None if rank is None else Rank(index=rank)
    return Evidence(fact=fact, origin=Origin(source=source, line=line), rank=writer, at=at, quote=quote)


def finding(rule: str, cause: Cause, title: str, *evidence: Evidence[Fact], **more: object) -> Finding:
    settings: dict[str, object] = {
        "because": f"because of {rule}",
        "ranks": tuple(dict.fromkeys(e.who for e in evidence if e.who is not None)),
        "confidence": Confidence.ESTABLISHED,
        "severity": Severity.FATAL,
        "standing": Standing.MECHANISM,
        **more,
    }
    return Finding(rule=rule, cause=cause, title=title, evidence=evidence, **settings)  # type: ignore[arg-type]


def out_of_memory(ranks: int, *, timed: bool = True, one_file: bool = False, text: str = "") -> Report:
    """Rank 3 runs out of memory, all others time out ten minutes later. ``text`` is put into every field."""

    def source(rank: int | str) -> str:
        return f"all{text}.log" if one_file else f"logs/rank{rank}{text}.log"

    def at(after: float) -> float | None:
        return NOON + after if timed else None

    frames = (Frame(function=f"step{text}", file=f"train{text}.py", line=7),)
    raised = ExceptionRaised(type="OutOfMemoryError", message=f"CUDA out of memory {text}", frames=frames)
    root = piece(3, raised, f"OutOfMemoryError: CUDA out of memory {text}", source(3), 88, at(0))
    others = [rank for rank in range(ranks) if rank != 3]
    waited = [
        piece(
            rank,
            CollectiveTimeout(op="ALLREDUCE"),
            f"Watchdog caught {text}",
            source(rank),
            120 + rank,
            at(600 + rank / 9),
        )
        for rank in others
    ]
    ended = piece(
        None, ProcessExited(reporter="torchrun", code=1), f"ChildFailedError {text}", source("-agent"), 900, at(700)
    )
    return Report(
        verdict=Verdict.FAILED,
        findings=(
            finding(
                "RES001",
                Cause.RESOURCE_GPU_OOM,
                f"rank 3 ran out of GPU memory {text}",
                root,
                because=f"the batch is too large {text}",
                fixes=(
                    Fix(do=f"use `FSDP` {text}", safety=Safety.CHANGES_RESULTS),
                    Fix(do="grow segments", command=f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {text}"),
                ),
            ),
            finding(
                "SYN001", Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, f"ranks waited {text}", *waited, role=Role.CASCADE
            ),
            finding("PRC001", Cause.UNKNOWN_NOT_ESTABLISHED, f"torchrun ended {text}", ended, role=Role.TEARDOWN),
        ),
        coverage=(
            Coverage(what=f"2 logs {text}", state=CoverageState.CHECKED),
            Coverage(what="kernel log", state=CoverageState.UNAVAILABLE, why=f"needs root {text}"),
        ),
        crashed=(RuleCrash(rule="NUM003", error=f"ValueError: {text}"),),
        ranks=tuple(range(ranks)),
        world_size=ranks,
    )
