# SPDX-License-Identifier: Apache-2.0
"""What the guard saw of a guest, read from what it left: black boxes and notes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keepstep.signals import blackbox
from keepstep.signals.blackbox import BoxPhase, RecordKind


@dataclass
class Seen:
    """Of one rank."""

    rank: int
    steps: int = 0
    batches: bool = False
    """The shapes of its batches."""
    model: bool = False
    """The parameters or variables of its model."""
    programs: int = 0
    """Compiled programs that it announced."""
    collectives: int = 0
    """The highest sequence number of a collective."""
    checkpoints: int = 0
    evaluations: int = 0
    goodbye: bool = False
    """It left in good order."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def seen(folders: Iterable[Path]) -> list[Seen]:
    """What the guards of these folders saw, one row per rank."""
    ranks: dict[int, Seen] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.box")):
            with contextlib.suppress(OSError, blackbox.NotABox):
                _add_box(ranks, blackbox.read(path.read_bytes()))
        for path in sorted(folder.glob("*.notes.jsonl")):
            for line in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    _add_note(ranks, json.loads(line))
    return [ranks[rank] for rank in sorted(ranks)]


def _add_box(ranks: dict[int, Seen], box: blackbox.BlackBox) -> None:
    rank = box.who.get("rank") or 0  # a program of one process has no rank
    row = ranks.setdefault(rank, Seen(rank))
    for record in box.records:
        if record.kind == RecordKind.STEP:
            row.steps = max(row.steps, record.value)
        elif record.kind == RecordKind.COLLECTIVE:
            row.collectives = max(row.collectives, record.value)
        elif record.kind == RecordKind.PHASE:
            row.checkpoints += record.value == BoxPhase.CHECKPOINT
            row.evaluations += record.value == BoxPhase.EVALUATION
            row.goodbye |= record.value == BoxPhase.END


def _add_note(ranks: dict[int, Seen], note: dict[str, Any]) -> None:
    rank = note["rank"]["index"]
    row = ranks.setdefault(rank, Seen(rank))
    if note["fact"] != "ContractStated":
        return
    subject, stated = note["fields"]["subject"], note["fields"]["stated"]
    known = any(value != "?" for _, value in stated)
    row.model |= known and subject.startswith(("model", "variable"))
    row.batches |= known and subject.startswith("batch") and subject != "batches"
    row.programs += subject.startswith(("plan", "program"))
