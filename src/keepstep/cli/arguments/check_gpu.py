# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check gpu``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Test every visible GPU, and a part of the host's memory, before you trust a run
to them. Your own PyTorch or JAX multiplies small integers in each type of
number, where every answer is known exactly, repeats a computation whose bits
must be the same each time and on all GPUs of a kind, and fills most of the free
memory with patterns. The driver's and the kernel's error counters are compared
before and after. Use it while nothing else runs on the GPUs.

  keepstep check gpu                     about a minute
  keepstep check gpu --minutes 20        a longer burn-in
  keepstep check gpu --with jax          with JAX where both are installed

Exit status: 0 nothing wrong, 1 something is, 3 there is no GPU, or not all of
it could be tested. A GPU above --hottest degrees is left alone at once.
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    made = add_verb(verbs, "check gpu", "test GPUs and host memory for wrong results", DESCRIPTION)
    made.add_argument("--minutes", type=float, default=1.0, metavar="M", help="how long, about (default: 1)")
    made.add_argument("--with", dest="framework", choices=("torch", "jax"), help="default: torch, else jax")
    made.add_argument("--hottest", type=int, default=85, metavar="C", help="degrees Celsius (default: 85)")
    made.add_argument(
        "--host-memory",
        type=float,
        default=1.0,
        metavar="GIB",
        help="never more than half of what is free (default: 1)",
    )
    made.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu: try the check itself, on the CPU (default: cuda)",
    )
    made.add_argument("--json", action="store_true", help="print keepstep.report/1 as JSON")
