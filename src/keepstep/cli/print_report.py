# SPDX-License-Identifier: Apache-2.0
"""How every verb prints a report: on the terminal, as JSON, as a page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import share_whole
from keepstep.base.visible import visible
from keepstep.errors import UserError, cannot_write
from keepstep.model.report import Report
from keepstep.render.terminal import render_terminal


def print_report(report: Report, *, as_json: bool, also: Mapping[str, Any] | None = None) -> None:
    """A report, already redacted, on standard output. ``also``: what a check found besides, for the JSON."""
    if as_json:
        from keepstep.render.json import render_json

        print(render_json(report, also), end="")
        return
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(render_terminal(report, colour=colour, width=shutil.get_terminal_size().columns), end="")


def refuse_to_overwrite(target: str | None, force: bool) -> None:
    """Refuse before the work, not after it."""
    if target and os.path.lexists(target) and not force:
        raise UserError(f"{target} already exists", hint="give another name, or --force to overwrite it")
    if target and not Path(target).absolute().parent.is_dir():
        raise UserError(f"the folder of {target} does not exist")


def write_page(path: str, text: str) -> None:
    """Write a page and say where it is."""
    try:
        share_whole(path, text.encode())
    except OSError as error:
        raise cannot_write(path, error) from error
    say(f"wrote {path}")


def say(text: str) -> None:
    """Print a line of our own to standard error; nothing quoted in it can control the terminal."""
    print(visible(text), file=sys.stderr)
