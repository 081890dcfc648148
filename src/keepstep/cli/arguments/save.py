# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep save``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = "Ask the ranks of a running job to save, all after the same step.\nIts script calls keepstep.should_save()."
    save = add_verb(verbs, "save", "ask a running job to save now", about)
    save.add_argument("run", metavar="RUN", help="a run folder, a folder of the guard, or `last`")
    save.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="how long to wait for its answer (default: 60)"
    )
