# SPDX-License-Identifier: Apache-2.0
"""``keepstep completion`` and ``keepstep manual``: both are written from the parser, so they know what it knows."""

from __future__ import annotations

import argparse
from importlib import import_module

from keepstep.cli.completion.commands import command_of, suggestions


def completion_verb(asked: argparse.Namespace) -> int:
    """Print the script for a shell. Returns the exit status."""
    from keepstep.cli.parser import build

    command = command_of(build(), suggestions())
    print(import_module(f"keepstep.cli.completion.{asked.shell}").script(command), end="")
    return 0


def manual_verb(asked: argparse.Namespace) -> int:
    """Print the manual page. Returns the exit status."""
    from keepstep.cli.completion.manual import page
    from keepstep.cli.parser import build

    print(page(build()), end="")
    return 0
