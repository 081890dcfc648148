# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep watch``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = (
        "Show a run as a page in the browser: what is wrong first, then every rank over\n"
        "time, of a run that is live or over. The page is on this machine only, and\n"
        "needs the token in the printed address. It only reads the run folder."
    )
    watch = add_verb(verbs, "watch", "show a run as a page in the browser", about)
    watch.add_argument(
        "run", metavar="RUN", nargs="?", help="a run folder, a name, or `last` (default: the list of all runs)"
    )
    watch.add_argument("--run-dir", metavar="DIR", help="where the run folders are (default: .keepstep/runs)")
    watch.add_argument("--port", type=int, default=0, metavar="PORT", help="the port (default: a free one)")
    watch.add_argument(
        "--html", metavar="FILE", help="write RUN (default: last) as one file instead, which opens without a server"
    )
