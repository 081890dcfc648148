# SPDX-License-Identifier: Apache-2.0
"""Which folders of rules the user named, and which one a ``keepstep.toml`` found in this folder or above names.

A file that was merely found may be a stranger's. It is read only if no other user can change it, it may name only a
folder beside or below itself, and a problem with it is reported in one line and stops nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keepstep.base.safe_files import open_regular, stranger
from keepstep.errors import UserError

CONFIG = "keepstep.toml"
USERS = "config.toml"
LARGEST = 1 << 20
EXAMPLE = '[rules]\n        folder = "keepstep-rules"'


class Unusable(Exception):
    """Why a file is skipped."""


def user_folder() -> Path | None:
    """Where this user's keepstep settings are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "keepstep"
    try:
        return Path.home() / ".config" / "keepstep"
    except RuntimeError:
        return None


def found_upwards(start: Path) -> Iterator[Path]:
    """Every ``keepstep.toml`` in a folder or above it, the nearest first."""
    for folder in (start, *start.parents):
        path = folder / CONFIG
        if os.path.lexists(path):
            yield path


def named_by_file(path: Path) -> Path | None:
    """The folder named in a ``keepstep.toml`` that the user named. Raises ``UserError``."""
    try:
        folder = _rules_folder(path, read_toml(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except Unusable as wrong:
        raise UserError(
            f"{path}: {wrong}" if "TOML" not in str(wrong) else f"{path} is {wrong}", hint=EXAMPLE
        ) from wrong
    if folder is not None and not folder.is_dir():
        raise UserError(f"{path}: [rules] folder does not exist: {folder}", hint="create it, or remove the line")
    return folder


def named_by_stranger(path: Path) -> Path | None:
    """The folder named in a ``keepstep.toml`` that was merely found. Raises ``Unusable``."""
    try:
        folder = _rules_folder(path, read_toml(path, own=True))
    except OSError as error:
        raise Unusable(error.strerror or "it cannot be read") from error
    if folder is None:
        return None
    if not folder.is_relative_to(path.parent.resolve()):
        raise Unusable(f"it names {folder}, which is not below it; name the file with --config to use it anyway")
    if not folder.is_dir():
        raise Unusable(f"[rules] folder does not exist: {folder}")
    why = stranger(folder.stat())
    if why is not None:
        raise Unusable(f"{folder}: {why}; name the file with --config to use it anyway")
    return folder


def named_by_user() -> list[Path]:
    """The folders in the user's own ``config.toml``. Raises ``Unusable``."""
    home = user_folder()
    if home is None or not os.path.lexists(home / USERS):
        return []
    try:
        rules = read_toml(home / USERS, own=True).get("rules", {})
    except OSError as error:
        raise Unusable(error.strerror or "it cannot be read") from error
    folders = rules.get("folders", []) if isinstance(rules, dict) else None
    if not isinstance(folders, list) or not all(isinstance(each, str) for each in folders):
        raise Unusable('[rules] folders must be a list of paths, such as folders = ["~/keepstep-rules"]')
    return [(home / Path(each).expanduser()).resolve() for each in folders]


def read_toml(path: Path, *, own: bool = False) -> dict[str, Any]:
    """A bounded TOML file. ``own``: only if no other user can change it. Raises ``OSError`` and ``Unusable``."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    with open_regular(path) as stream:
        why = stranger(os.fstat(stream.fileno())) if own else None
        if why is not None:
            raise Unusable(f"{why}; name it with --config to use it anyway" if path.name == CONFIG else why)
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unusable("it is larger than a megabyte")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"not valid TOML: {error}") from error


def _rules_folder(path: Path, settings: dict[str, Any]) -> Path | None:
    rules = settings.get("rules", {})
    if not isinstance(rules, dict) or not isinstance(rules.get("folder", ""), str):
        raise Unusable("[rules] folder must be a path")
    if not rules.get("folder"):
        return None
    try:
        return (path.parent / Path(rules["folder"]).expanduser()).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a loop of links, an unknown user
        raise Unusable(f"[rules] folder must be a path: {error}") from error
