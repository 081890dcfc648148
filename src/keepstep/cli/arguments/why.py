# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep why``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_report_options, add_verb

DESCRIPTION = """\
Say which rank of a distributed training run failed first, why, how we know and
what to do, from whatever the run left behind. The run need not have used
keepstep.

PATH is a folder, a log file (plain, .gz, .zst, .bz2 or .xz; one rank per file
or several interleaved, with any launcher's prefixes), a core file, a PyTorch
flight-recorder dump, the name of a run of `keepstep run` (`last` for the
latest), `-` for standard input, `slurm:JOBID`, or `k8s:NAMESPACE/JOB`.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    why = add_verb(verbs, "why", "explain a failed or stuck run", DESCRIPTION)
    why.add_argument("paths", nargs="*", metavar="PATH", help="what the run left behind")
    why.add_argument("--live", action="store_true", help="look at the training processes on this host instead")
    why.add_argument(
        "--pid",
        type=int,
        action="append",
        default=[],
        metavar="PID",
        help="with --live: only this process (repeatable)",
    )
    add_report_options(why)
    why.add_argument(
        "--bundle", metavar="FILE", help="also write an archive (.tar.gz) of the report and all evidence, redacted"
    )
    why.add_argument("--force", action="store_true", help="overwrite the FILE of --html and --bundle")
    why.add_argument(
        "--config",
        metavar="FILE",
        help="use this keepstep.toml, including its Python rules (default: the nearest one in this folder or above,"
        " for its TOML signatures only)",
    )
    why.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FOLDER",
        help="use your own rules in FOLDER, including Python rules (repeatable)",
    )
    why.add_argument(
        "--exit-status",
        action="append",
        default=[],
        metavar="RANK=STATUS",
        help="how a rank ended, as you know it (repeatable): a log alone seldom proves that its rank ended well",
    )
    why.add_argument("--follow", action="store_true", help="follow links in PATH that lead outside it")
    why.add_argument("--no-kernel-log", action="store_true", help="do not read this host's kernel log")
    why.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        metavar="S",
        help="stop after S seconds plus one per megabyte on the disk, for all of it: reading, matching and redacting;"
        " the report lists what was left out (default: 120)",
    )
    why.add_argument(
        "--seconds-per-file",
        type=float,
        default=20.0,
        metavar="S",
        help="stop reading a log after S seconds of processor time plus one per megabyte, and say so in the report"
        " (default: 20)",
    )
