# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep lab``."""

from __future__ import annotations

import sys

from keepstep.cli.arguments import Parser, Verbs, add_selection, add_verb, guests, lab_nodes

DESCRIPTION = """\
Start a real distributed training job of TensorFlow, PyTorch or JAX on this
machine, break it in a named way, prove that it broke, and compare what keepstep
says with what happened.

Nothing is left behind: processes, network namespaces, control groups, mounts
and temporary files are removed, even after Ctrl-C or if the lab is killed.
Exit status: 0 keepstep was right, 1 it was wrong, 3 it cannot run here.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    lab = add_verb(verbs, "lab", "break real training jobs on purpose", DESCRIPTION)
    asks = lab.add_subparsers(dest="ask", metavar="list | run NAME | score | guests | nodes", required=True)
    scenarios = asks.add_parser("list", help="list the scenarios", description="List the scenarios.")
    about = "run one scenario and show what keepstep says about it"
    run = asks.add_parser("run", help=about, description=f"R{about[1:]}.")
    score = asks.add_parser("score", help="run many scenarios and count", description="Run many scenarios and count.")
    _add_run(run)
    add_selection((scenarios, score))
    for each in (run, score):
        _add_running(each)
    score.add_argument("--replay", metavar="DIR", help="judge the recordings in DIR; start nothing")
    score.add_argument("--quick", action="store_true", help="only the small selection that `make test` runs")
    score.add_argument("--jobs", type=int, default=1, metavar="N", help="run N scenarios at a time (default: 1)")
    score.add_argument("--markdown", metavar="FILE", help="also write the table to FILE")
    for each in (scenarios, run, score):
        each.add_argument("--json", action="store_true", help="print JSON")
    guests.add(asks)
    lab_nodes.add(asks)


def _add_run(run: Parser) -> None:
    run.add_argument("name", metavar="NAME", help="a scenario of `keepstep lab list`")
    run.add_argument("--keep", metavar="DIR", help="copy what the run left behind to DIR")
    run.add_argument(
        "--script",
        metavar="FILE",
        help="break this training script instead of the lab's own job (only with faults that act from outside)",
    )
    run.add_argument(
        "--mark",
        metavar="TEXT",
        help="with --script: break it once a rank has printed TEXT (default: the scenario's own mark)",
    )


def _add_running(parser: Parser) -> None:
    parser.add_argument(
        "--with",
        dest="watch",
        default="",
        choices=("data", "guard", "run"),
        help="data: start nothing, and judge what `keepstep check data` says about the files;"
        " guard: run the ranks with KEEPSTEP=on and judge only what the guard wrote;"
        " run: start them with `keepstep run` and judge its report",
    )
    parser.add_argument("--record", metavar="DIR", help="keep each run as a recording in DIR")
    parser.add_argument(
        "--python", metavar="PYTHON", default=sys.executable, help="the Python that trains (default: this one)"
    )
