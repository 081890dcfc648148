# SPDX-License-Identifier: Apache-2.0
"""``keepstep rules trust``: the user's decisions to let the Python rules of a folder run."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from keepstep.base.wording import count, size
from keepstep.errors import UserError
from keepstep.extend import trusted_folders
from keepstep.extend.rule_folders import CONFIG, Unusable, named_by_stranger


def trust_verb(asked: argparse.Namespace) -> int:
    """Do what was asked; returns the exit status."""
    if asked.list:
        return _list()
    if not asked.words:
        raise UserError("no folder given", hint="for example `keepstep rules trust keepstep-rules`, or --list")
    for word in asked.words:
        if asked.forget:
            _forget(Path(word))
        else:
            _trust(_folder_of_rules(Path(word)))
    return 0


def _list() -> int:
    made = trusted_folders.decisions()
    for path, each in made.items():
        state = "" if _is_current(Path(path)) else "  (changed or missing: its rules do not run)"
        print(f"{time.strftime('%Y-%m-%d', time.localtime(each.at))}  {each.digest[:12]}  {_shown(path)}{state}")
    if not made:
        print("you trust no folder of Python rules")
    return 0


def _is_current(folder: Path) -> bool:
    try:
        return trusted_folders.why_not(folder, trusted_folders.python_files(folder)) is None
    except (OSError, trusted_folders.TooMuchPython):
        return False


def _folder_of_rules(given: Path) -> Path:
    """The folder itself, or the one that its ``keepstep.toml`` names."""
    if not given.is_dir():
        raise UserError(f"no such folder: {given}")
    if any(given.glob("*.py")) or not (given / CONFIG).exists():
        return given.resolve()
    try:
        return named_by_stranger(given / CONFIG) or given.resolve()
    except Unusable as wrong:
        raise UserError(f"{given / CONFIG}: {wrong}") from wrong


def _trust(folder: Path) -> None:
    files = trusted_folders.trust(folder)
    unchanged = "it does not change" if len(files) == 1 else "they do not change"
    print(f"{count(len(files), 'Python file')} in {folder} will run from now on, as long as {unchanged}:")
    for name, data in files.items():
        print(f"  {_shown(name)}  ({size(len(data))})")


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _forget(folder: Path) -> None:
    known = [path for path in (str(folder.resolve()), str(folder)) if trusted_folders.forget(Path(path))]
    if not known:
        raise UserError(
            f"you have not trusted {folder}", hint="`keepstep rules trust --list` shows the folders you trust"
        )
    print(f"Python in {known[0]} will no longer run")
