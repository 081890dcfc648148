# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep shrink``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Make the smallest program that still fails in the same way, for an issue: fewer
ranks, less code, smaller numbers, no settings that do not matter.

  keepstep shrink -- torchrun --nproc-per-node 4 train.py
  keepstep shrink -- keepstep run -n 4 -- python train.py
  keepstep shrink -- python train.py
  keepstep shrink -- bash start.sh    or mpirun ...: it starts the ranks itself
  keepstep shrink last                a run that `keepstep run` kept

Each candidate is run and judged by keepstep's own report: the same cause, the
same line of your program, the same exception, signal or stuck place, on the
same kind of rank. One that fails in another way is refused and listed. Trials
see your files through a layer that is thrown away, and have no network but
loopback. Ctrl-C keeps the best so far, and the same command goes on from there.

The result is a folder: the program, its versions, its output, the report, and
the text of an issue. It is run once more in an empty folder before it is
handed over.

Exit status: 0 the result fails in the same way, 1 it did so only where your
other files are, 3 the command does not fail here or cannot be tried.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    usage = "keepstep shrink [options] [RUN | -- COMMAND ...]"
    made = add_verb(verbs, "shrink", "make the smallest program that still fails", DESCRIPTION, usage)
    made.add_argument(
        "--budget", default="20m", metavar="TIME", help="how long it may take: 90s, 20m, 2h (default: 20m)"
    )
    made.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="keep lines that match (may be repeated)"
    )
    made.add_argument(
        "--works", metavar="FILE", help="what `pip freeze` says where it works: the packages that differ are listed"
    )
    made.add_argument("--out", metavar="DIR", help="the folder of the result (default: shrunk-SCRIPT)")
    made.add_argument("--json", action="store_true", help="print the result as one JSON document")
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command, after --, or a run")
