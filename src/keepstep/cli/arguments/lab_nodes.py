# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep lab nodes``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Start `keepstep run --nodes ... --meet` on several machines (network namespaces
with names, temporary folders and shared memory of their own), break something
between them, and judge: the cause, the node and the rank that are named, how
soon, how the agents end, that two attempts never ran at once, and that nothing
is left behind on any machine. Needs root.
Exit status: 0 all as expected, 1 not, 3 nothing could run here.
"""


def add(asks: Verbs) -> None:
    """Add the verb below ``lab``."""
    nodes = add_verb(asks, "nodes", "break runs on several machines", DESCRIPTION)
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
