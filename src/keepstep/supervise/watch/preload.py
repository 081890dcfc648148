# SPDX-License-Identifier: Apache-2.0
"""Get ready for trouble while there is none: load what looks and diagnoses need before they need it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from keepstep.supervise.start.process_exit import Exit
from keepstep.supervise.start.started_process import StartedProcess

MOST_READY = 8


def prepare(ranks: int, *, explains: bool = True) -> None:
    """Start the children that look at stacks, and import what a diagnosis needs. Never raises.

    None of this is urgent: it takes seconds of processor time, and agents must be heard meanwhile.

    ``explains``: diagnoses are made in this process. An agent only sends what it sees, and the leader explains it.
    """
    with contextlib.suppress(Exception):
        if ranks:
            from keepstep.sources.stacks.process_stacks import keep_ready

            keep_ready(max(1, min(ranks, os.cpu_count() or 1, MOST_READY)))
        if not explains:
            return
        import keepstep.analyze.why  # noqa: F401
        from keepstep.analyze.load_tables import known
        from keepstep.rules import builtin_rules

        builtin_rules()
        known()


def rehearse(folder: Path) -> None:
    """Explain a death that did not happen, and discard it: the first explanation takes longest. Never raises."""
    import tempfile

    with contextlib.suppress(Exception), tempfile.TemporaryDirectory(prefix="keepstep-") as place:
        from keepstep.base.redact import redacted
        from keepstep.render.json import render_json
        from keepstep.supervise.show.diagnosis import explain
        from keepstep.supervise.watch.own_evidence import Records

        records = Records(Path(place))
        records.exited(StartedProcess(rank=0), Exit(pid=os.getpid(), at=time.time(), signal="SIGKILL"), first=True)
        records.standing({os.getpid(): 1})
        report, _ = explain(folder, Path(place))
        render_json(redacted(report))
