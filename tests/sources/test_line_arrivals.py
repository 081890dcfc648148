# SPDX-License-Identifier: Apache-2.0
"""When lines arrived: written by the output of a run, read for evidence that tells no time of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts.process import ExceptionRaised, TerminationRequested
from keepstep.model.identity import Rank
from keepstep.store.evidence_file import append
from keepstep.supervise.show.rank_output import Output

TRACEBACK = b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nValueError: bad\n'


def printed(folder: Path, *pieces: tuple[float, bytes]) -> None:
    """A rank that prints each piece after a pause."""
    output = Output()
    out, err = output.open("rank0", 0, folder / "rank0.log")
    os.close(err)
    for pause, piece in pieces:
        time.sleep(pause)
        os.write(out, piece)
    os.close(out)
    output.drain(10.0)
    output.close()


def told_to_end(folder: Path) -> float:
    at = time.time()
    fact = TerminationRequested(signal="SIGTERM", by="user")
    append(
        folder / "exits.jsonl",
        [Evidence(fact=fact, origin=Origin(source="exits.jsonl"), rank=Rank(index=0), at=at, quote="ending rank0")],
    )
    return at


def test_a_line_without_a_time_has_that_of_its_arrival(tmp_path: Path) -> None:
    began = time.time()
    printed(tmp_path, (0.0, b"start\n"), (0.5, TRACEBACK))
    (raised,) = explain_paths([tmp_path]).seen.all(ExceptionRaised)
    assert raised.at is not None and began + 0.4 < raised.at <= time.time()
    assert "at" in to_dict(raised)


def test_what_follows_a_signal_is_not_its_cause_and_what_precedes_it_is(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    printed(before, (0.0, TRACEBACK))
    time.sleep(0.1)
    told_to_end(before)
    told_to_end(after)
    printed(after, (0.1, TRACEBACK))
    causes = {folder.name: explain_paths([folder]).report.root for folder in (before, after)}
    assert causes["before"] is not None and causes["before"].cause.value == "user.code_exception"
    assert causes["after"] is not None and causes["after"].cause.value == "preemption.sigterm"
