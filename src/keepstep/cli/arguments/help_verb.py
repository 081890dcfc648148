# SPDX-License-Identifier: Apache-2.0
"""``keepstep help VERB``: the same as ``keepstep VERB --help``."""

from __future__ import annotations

from keepstep.cli.arguments import Verbs, add_verb

DESCRIPTION = """\
Say what keepstep can do, or what a verb accepts: `keepstep help`,
`keepstep help why`, `keepstep help check data`.
"""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    asked = add_verb(verbs, "help", "say what keepstep or a verb can do", DESCRIPTION)
    asked.add_argument("words", nargs="*", metavar="VERB", help="the verb in question")
