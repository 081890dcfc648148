# SPDX-License-Identifier: Apache-2.0
"""What `keepstep check checkpoint` looks at: each checkpoint against its record, or against its own format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from keepstep.check.checkup import judge
from keepstep.check.place import Collected
from keepstep.errors import UserError
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.training import CheckpointDamaged
from keepstep.model.report import Report
from keepstep.store.ledger.checkpoint_files import TF_PARTS, is_one_checkpoint, on_disk, parts_of
from keepstep.store.ledger.states import State
from keepstep.store.ledger.verify import Verdict, in_order, verify


def named(paths: list[str]) -> list[Path]:
    """The checkpoints that the user means: each path itself, or all in that folder."""
    found: list[Path] = []
    for text in paths:
        if (place := on_disk(text)) is None:
            raise UserError(f"{text} is in an object store, which cannot be verified", hint="copy it to a disk first")
        path = Path(place)
        if TF_PARTS.search(path.name):
            path = path.with_name(TF_PARTS.sub("", path.name))
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise UserError(f"{text} cannot be read: permission denied")
        if not text or not parts_of(path):
            what = "holds no checkpoint" if path.is_dir() else "is no file, folder or prefix of TensorFlow's"
            raise UserError(f"{text or 'an empty path'} {what}", hint="for instance: keepstep check checkpoint ckpt/")
        inside = in_order(path) if path.is_dir() and not is_one_checkpoint(path) else [path]
        found += [each for each in inside or [path] if each not in found]
    return found


def look(paths: list[Path], progress: Callable[[int], None] = lambda size: None) -> Iterator[Verdict]:
    """One after the other, the oldest first."""
    for path in paths:
        yield verify(path, progress=progress)


def report_on(verdicts: list[Verdict]) -> Report:
    """What is wrong, and what could not be compared byte for byte."""
    seen = Collected()
    for each in verdicts:
        name = str(each.path)
        if each.state.is_bad or each.state in (State.CHANGED, State.PARTIAL):
            fact = CheckpointDamaged(
                path=name,
                why=each.words,
                step=each.step,
                certain=each.state.is_bad,
                loaded=False,
                state=each.state.word.lower(),
            )
            seen.add(Evidence(fact=fact, origin=Origin(source=name), quote=f"{each.path.name}: {each.words}"))
        if each.state is State.UNREADABLE:
            seen.partly(name, f"it could not be read: {each.why}")
        elif each.state is State.UNRECORDED:
            seen.partly(name, each.why or "nothing was recorded when it was saved: only its format was checked")
        elif each.unrecorded:
            seen.partly(name, f"{each.unrecorded} of its {each.files + each.unrecorded} files have no record")
        else:
            seen.checked(name)
    return judge(seen)
