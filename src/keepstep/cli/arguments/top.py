# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep top``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = (
        "Show a run in one screen of the terminal: what is wrong first, then the ranks\n"
        "that matter. It only reads the run folder, of a run that is live or over.\nq quits."
    )
    top = add_verb(verbs, "top", "show a run in the terminal", about)
    top.add_argument("run", metavar="RUN", nargs="?", default="last", help="a run folder, a name, or `last` (default)")
    top.add_argument("--once", action="store_true", help="print one screen and end (also where it is no terminal)")
