# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep pause`` and ``keepstep resume``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

RUN = "a run folder, or `last`"


def add(verbs: Verbs) -> None:
    """Add both verbs."""
    about = "Ask all ranks of a running job to wait after the same step, outside any\ncollective. Losses stay the same."
    pause = add_verb(verbs, "pause", "let a running job wait", about)
    pause.add_argument("run", metavar="RUN", help=RUN)
    pause.add_argument(
        "--for", dest="for_s", type=float, default=300.0, metavar="SECONDS",
        help="the longest wait (default: 300)",
    )  # fmt: skip
    pause.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="how long to wait for the ranks (default: 60)"
    )
    about = "End a pause: that of `keepstep pause`, or one that a limit asked for."
    add_verb(verbs, "resume", "let a paused job go on", about).add_argument("run", metavar="RUN", help=RUN)
