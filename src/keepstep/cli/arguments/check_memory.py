# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check memory``."""

from __future__ import annotations

import argparse

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Say whether a training (PyTorch, JAX, TensorFlow, Keras) fits into a device,
without the device. The script runs here, unmodified, on tensors that have
shapes but no content, as rank 0 of a group that does not talk, for two
optimizer steps. Every storage is counted by the rules of PyTorch's allocator;
of JAX and TensorFlow each program is planned by the rules of XLA. The script
cannot change a file or reach a network meanwhile.

  keepstep check memory --device h200 -- python train.py --batch-size 32
  keepstep check memory --device 80GB -- torchrun --nproc-per-node 8 train.py
  keepstep check memory --device a100-40gb --ranks 64 -- python train.py
  keepstep check memory --device list

Exit status: 0 it fits, 1 it does not fit, 3 too close to say, or the script
could not be tried.
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    usage = "keepstep check memory --device NAME [options] -- COMMAND ..."
    made = add_verb(verbs, "check memory", "say whether a training fits into a device", DESCRIPTION, usage)
    made.add_argument("--device", metavar="NAME", help="a device, an amount such as 80GB, or `list`")
    made.add_argument("--ranks", type=int, metavar="N", help="ranks of the job (default: as the launcher says, else 1)")
    made.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="seconds that the dry run may take (default: 900)"
    )
    made.add_argument(
        "--search",
        type=float,
        metavar="S",
        help="seconds for remedies and the largest batch (default: 120 if it may not fit, else 0)",
    )
    made.add_argument(
        "--ranks-per-host", type=int, metavar="N", help="ranks that share a host's memory (default: all, at most 8)"
    )
    made.add_argument("--host-memory", metavar="SIZE", help="what a host has, such as 512GB: for a verdict on it too")
    made.add_argument("--data", metavar="PATH", help="the training data: also forecast with the longest of its records")
    made.add_argument("--html", metavar="FILE", help="also write a page with a picture of the parts over the two steps")
    made.add_argument(
        "--save",
        metavar="FILE.jsonl",
        help="also write the forecast, for `keepstep run --memory-forecast` and `keepstep why`",
    )
    made.add_argument("--force", action="store_true", help="overwrite the FILE of --html and --save")
    made.add_argument("--json", action="store_true", help="print keepstep.report/1 as JSON")
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command, after --")
