# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep lab guests``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_selection, add_verb

DESCRIPTION = """\
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


def add(asks: Verbs) -> None:
    """Add the verb below ``lab``."""
    guests = add_verb(asks, "guests", "run other libraries' programs, unmodified", DESCRIPTION)
    verbs = guests.add_subparsers(dest="guests_ask", metavar="list | run NAME | score", required=True)
    listed = verbs.add_parser("list", help="list the guests and the ways to run each")
    run = verbs.add_parser("run", help="run one and judge it")
    score = verbs.add_parser("score", help="run many, judge them and count")
    run.add_argument("name", metavar="NAME", help="a guest of `keepstep lab guests list`")
    run.add_argument("--keep", metavar="DIR", help="copy what each run left behind to DIR")
    add_selection((listed, score))
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
