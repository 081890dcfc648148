# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Parser, Verbs, add_report_options, add_verb

DESCRIPTION = """\
Look at this host and at the job's environment variables, and name what would
kill the run, each problem with its fix. Started alone, it reports what one
process can see. Started the way the job is, with one process per rank or per
host, the processes find each other, compare, and rank 0 prints one report:

  keepstep check                          this host only, at once
  keepstep check --wait                   by hand, once per rank or host
  srun keepstep check                     under Slurm
  torchrun --no-python keepstep check     under torchrun
  mpirun keepstep check                   under MPI
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    check = add_verb(verbs, "check", "find what would kill the run, before it starts", DESCRIPTION)
    check.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help="only these parts: config, network, env, resources (default: all); or `code PATH`, or `data PATH`",
    )
    check.add_argument("--script", metavar="FILE", help="the training script; it must be identical on every rank")
    check.add_argument(
        "--path",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder the run will write checkpoints or logs to (repeatable)",
    )
    check.add_argument(
        "--meet", metavar="HOST:PORT", help="where rank 0's check listens (default: from the launcher's variables)"
    )
    check.add_argument(
        "--wait",
        type=float,
        nargs="?",
        const=30.0,
        metavar="SECONDS",
        help="wait this long for the job's other processes (30 if no number is given; also the default under a"
        " launcher that started them; otherwise do not wait)",
    )
    check.add_argument(
        "--sample",
        type=int,
        metavar="ROUNDS",
        help="test each host against this many others instead of all (for thousands of hosts)",
    )
    check.add_argument(
        "--with",
        dest="more",
        choices=("collectives",),
        help="also try the framework's collectives (see `keepstep check collectives --help`)",
    )
    add_report_options(check)
    check.add_argument("--force", action="store_true", help="overwrite the FILE of --html")
    check.add_argument(
        "--hosts", metavar="A,B,C", help="check these hosts over ssh; with --write: the hosts of the cluster"
    )
    check.add_argument(
        "--remote",
        metavar="COMMAND",
        default="keepstep",
        help="with --hosts: the keepstep command on those hosts (default: keepstep)",
    )
    check.add_argument("--member", type=int, help=argparse.SUPPRESS)
    check.add_argument("--evidence", action="store_true", help=argparse.SUPPRESS)
    _add_writing(check)


def _add_writing(check: Parser) -> None:
    writing = check.add_argument_group(
        "writing the variables",
        "`keepstep check config --write` prints each rank's variables: TF_CONFIG and\n  those of PyTorch and JAX",
    )
    writing.add_argument("--write", action="store_true", help="print them, from Slurm, MPI, Kubernetes or --hosts")
    writing.add_argument(
        "--per-host", type=int, default=1, metavar="N", help="tasks on each host of --hosts (default: 1)"
    )
    writing.add_argument("--chief", action="store_true", help="make the first task the chief")
    writing.add_argument("--ps", type=int, default=0, metavar="N", help="make the last N tasks parameter servers")
    writing.add_argument(
        "--port", type=int, default=2222, metavar="PORT", help="the first port on each host (default: 2222)"
    )
