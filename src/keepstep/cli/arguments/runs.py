# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep runs``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb


def add(verbs: Verbs) -> None:
    """Add the verb."""
    about = "List the runs that `keepstep run` has kept, or where the time of RUN went."
    runs = add_verb(verbs, "runs", "list the runs in this folder", about)
    runs.add_argument("run", metavar="RUN", nargs="?", help="a run's folder, its name or a part of it, or `last`")
    runs.add_argument("--run-dir", metavar="DIR", help="where the run folders are (default: .keepstep/runs)")
    runs.add_argument(
        "--hosts", action="store_true", help="list the hosts of your runs on several nodes, and their failures, instead"
    )
    runs.add_argument("--json", action="store_true", help="print JSON")
    runs.add_argument(
        "--prune", action="store_true", help="remove old runs instead (`keepstep run` also does so when it starts)"
    )
    runs.add_argument("--dry-run", action="store_true", help="with --prune: only list what would be removed")
    runs.add_argument(
        "--keep", type=int, default=5, metavar="N", help="with --prune: always keep the newest N (default: 5)"
    )
    runs.add_argument(
        "--keep-days",
        type=float,
        default=30.0,
        metavar="DAYS",
        help="with --prune: also keep runs younger than this (default: 30) ...",
    )
    runs.add_argument(
        "--keep-gb",
        type=float,
        default=10.0,
        metavar="GB",
        help="... unless all runs together take more than this (default: 10)",
    )
