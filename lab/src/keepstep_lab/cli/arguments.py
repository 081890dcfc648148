# SPDX-License-Identifier: Apache-2.0
"""What ``keepstep lab`` accepts, and the words that a shell may suggest. keepstep asks for both where the lab is."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from keepstep.cli.arguments import Parser, Verbs, add_verb

ABOUT = """\
Start a real distributed training job of TensorFlow, PyTorch or JAX on this
machine, break it in a named way, prove that it broke, and compare what keepstep
says with what happened.

Nothing is left behind: processes, network namespaces, control groups, mounts
and temporary files are removed, even after Ctrl-C or if the lab is killed.
Exit status: 0 keepstep was right, 1 it was wrong, 3 it cannot run here.
"""
ABOUT_GUESTS = """\
Run programs written for other libraries (Lightning, Accelerate, Ray Train,
Keras, Flax and more, as their documentation writes them) without keepstep and
with it:

  plain    their own launcher, without keepstep
  guard    KEEPSTEP=on and their own launcher
  ranks    keepstep run -n 2 -- python program.py
  wrapped  keepstep run -- their own launcher

A healthy guest must end well, with keepstep silent, the same losses to the last
digit as without it, and nothing left behind. A broken guest is broken from
outside: keepstep must name the cause and the rank, and restart it or end it, as
the fault requires. Guests whose libraries are not installed are skipped, and
the output says so. Nothing stays on the machine, even after Ctrl-C.
Exit status: 0 all as expected, 1 not, 3 nothing could run here.
"""
ABOUT_NODES = """\
Start `keepstep run --nodes ... --meet` on several machines (network namespaces
with names, temporary folders and shared memory of their own), break something
between them, and judge: the cause, the node and the rank that are named, how
soon, how the agents end, that never two attempts ran at once, and that nothing
is left behind on any machine. Needs root.
Exit status: 0 all as expected, 1 not, 3 nothing could run here.
"""
FRAMEWORKS = ("tensorflow", "torch", "jax")


def add(verbs: Verbs) -> None:
    """Add the verb."""
    lab = add_verb(verbs, "lab", "break real training jobs on purpose", ABOUT)
    asks = lab.add_subparsers(dest="ask", metavar="list | run NAME | score | take DIR | guests | nodes", required=True)
    scenarios = asks.add_parser("list", help="list the scenarios", description="List the scenarios.")
    about = "run one scenario and show what keepstep says about it"
    run = asks.add_parser("run", help=about, description=f"R{about[1:]}.")
    score = asks.add_parser("score", help="run many scenarios and count", description="Run many scenarios and count.")
    _add_run(run)
    _add_selection((scenarios, score))
    for each in (run, score):
        _add_running(each)
    score.add_argument("--replay", metavar="DIR", help="judge the recordings in DIR; start nothing")
    score.add_argument("--quick", action="store_true", help="only the small selection that `make test` runs")
    score.add_argument("--jobs", type=int, default=1, metavar="N", help="run N scenarios at a time (default: 1)")
    score.add_argument("--markdown", metavar="FILE", help="also write the table to FILE")
    for each in (scenarios, run, score):
        each.add_argument("--json", action="store_true", help="print JSON")
    about = "take in what `keepstep shrink` made, as a scenario"
    taken = asks.add_parser("take", help=about, description=f"T{about[1:]}.")
    taken.add_argument("folder", metavar="DIR", help="the folder of the result")
    taken.add_argument("--name", metavar="NAME", help="the scenario's name (default: the framework and the script)")
    _add_guests(asks)
    _add_nodes(asks)


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


def _add_guests(asks: Verbs) -> None:
    guests = add_verb(asks, "guests", "run other libraries' programs, unmodified", ABOUT_GUESTS)
    verbs = guests.add_subparsers(dest="guests_ask", metavar="list | run NAME | score", required=True)
    listed = verbs.add_parser("list", help="list the guests and the ways to run each")
    run = verbs.add_parser("run", help="run one and judge it")
    score = verbs.add_parser("score", help="run many, judge them and count")
    run.add_argument("name", metavar="NAME", help="a guest of `keepstep lab guests list`")
    run.add_argument("--keep", metavar="DIR", help="copy what each run left behind to DIR")
    _add_selection((listed, score))
    for each in (run, score):
        each.add_argument(
            "--way",
            action="append",
            choices=("plain", "guard", "ranks", "wrapped"),
            help="only this way (repeatable; default: all that apply)",
        )
    run.add_argument(
        "--fault",
        action="append",
        metavar="FAULT",
        help="break it this way, from outside (repeatable; `all`: every fault it is scored with);"
        " `keepstep lab guests list --faults` lists them",
    )
    listed.add_argument("--faults", action="store_true", help="list the faults instead")
    kinds = score.add_mutually_exclusive_group()
    kinds.add_argument("--healthy", action="store_true", help="only unbroken guests")
    kinds.add_argument("--broken", action="store_true", help="only broken guests")
    score.add_argument("--quick", action="store_true", help="only the small selection that `make test` runs")
    score.add_argument("--jobs", type=int, default=1, metavar="N", help="run N guests at a time (default: 1)")
    score.add_argument(
        "--load", type=int, default=0, metavar="N", help="keep N other processes busy meanwhile (default: 0)"
    )
    score.add_argument("--markdown", metavar="FILE", help="also write the tables to FILE")
    for each in (listed, run, score):
        each.add_argument("--json", action="store_true", help="print JSON; progress goes to standard error")


def _add_nodes(asks: Verbs) -> None:
    nodes = add_verb(asks, "nodes", "break runs on several machines", ABOUT_NODES)
    verbs = nodes.add_subparsers(dest="nodes_ask", metavar="list | run NAME | score", required=True)
    listed = verbs.add_parser("list", help="list the scenarios")
    run = verbs.add_parser("run", help="run one and judge it")
    score = verbs.add_parser("score", help="run many, judge them and count")
    run.add_argument("name", metavar="NAME", help="a scenario of `keepstep lab nodes list`")
    run.add_argument("--keep", metavar="DIR", help="copy what the machines were left with to DIR")
    for each in (listed, score):
        each.add_argument("names", nargs="*", metavar="NAME", help="only these")
    for each in (listed, run, score):
        each.add_argument("--json", action="store_true", help="print JSON")


def _add_selection(parsers: Iterable[Parser]) -> None:
    for each in parsers:
        each.add_argument("names", nargs="*", metavar="NAME", help="only these")
        each.add_argument("--framework", choices=FRAMEWORKS, help="only those of this framework")


def suggestions() -> dict[tuple[str, str], tuple[str, ...]]:
    """Names of scenarios and guests, by command and argument."""
    from keepstep_lab.guests.catalogue import GUESTS
    from keepstep_lab.guests.faults import FAULTS
    from keepstep_lab.nodes.table import SCENARIOS as BETWEEN_NODES
    from keepstep_lab.scenarios import SCENARIOS

    names = {"lab": tuple(SCENARIOS), "lab guests": tuple(GUESTS), "lab nodes": tuple(BETWEEN_NODES)}
    found = {(f"{above} {verb}", "NAME"): names[above] for above in names for verb in ("list", "run", "score")}
    return {**found, ("lab guests run", "FAULT"): ("all", *FAULTS)}
