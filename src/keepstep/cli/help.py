# SPDX-License-Identifier: Apache-2.0
"""``keepstep help``: what the parser says by itself, asked for in words."""

from __future__ import annotations

import argparse


def help_verb(asked: argparse.Namespace) -> int:
    """Print the help of a verb, or of keepstep. Returns the exit status."""
    from keepstep.cli.parser import run

    return run([*asked.words, "--help"])
