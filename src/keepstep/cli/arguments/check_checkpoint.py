# SPDX-License-Identifier: Apache-2.0
"""The options of ``keepstep check checkpoint``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Say which checkpoints are what was saved, byte for byte, before you resume from
one. The guard recorded sums of every file when it was saved. A checkpoint
without such a record is checked as far as its format allows: most formats
cannot tell a flipped bit. Nothing is loaded, run or changed.

  keepstep check checkpoint ckpt/                all in a folder
  keepstep check checkpoint ckpt/step_200.pt     one file
  keepstep check checkpoint out/checkpoint-200   one that is a folder
  keepstep check checkpoint logs/ckpt-7          TensorFlow's prefix

Exit status: 0 all are as saved, 1 one is damaged, incomplete or changed,
3 some files have no record or cannot be read. In a script:
  path = keepstep.latest_good("ckpt/")
"""


def add(verbs: Verbs) -> None:
    """Add the part, as a verb of two words."""
    made = add_verb(verbs, "check checkpoint", "find damaged and incomplete checkpoints", DESCRIPTION)
    made.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or TensorFlow's prefix")
    made.add_argument("--json", action="store_true", help="print keepstep.report/1 as JSON")
