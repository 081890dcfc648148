# SPDX-License-Identifier: Apache-2.0
"""What a project says about its own check: ``[check.code]`` in the nearest ``keepstep.toml`` or ``pyproject.toml``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keepstep.errors import UserError
from keepstep.extend.rule_folders import CONFIG, Unusable, read_toml

_LISTS = ("select", "ignore", "exclude")
PER_FILE = "per-file-ignores"


@dataclass(frozen=True, kw_only=True)
class CodeSettings:
    """``exclude``: names of files and folders that are not read."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns of paths, and the rules that are not asked about such files."""
    preview: bool = False
    skipped: tuple[tuple[str, str], ...] = ()
    """What has the name of settings but cannot be opened, and why: a pipe in a folder above must not stop a check."""


def settings_near(path: Path) -> CodeSettings:
    """The settings of the project that a path belongs to. Raises ``UserError`` if they cannot be used."""
    start = path.resolve()
    skipped: list[tuple[str, str]] = []
    for file, inside in _found(start if start.is_dir() else start.parent):
        try:
            section: object = read_toml(file)
        except OSError as error:
            skipped.append((str(file), error.strerror or "it cannot be read"))
            continue
        except Unusable as error:
            raise UserError(f"{file}: {error}") from error
        for name in inside:
            section = section.get(name) if isinstance(section, dict) else None
        if isinstance(section, dict):
            return replace(_settings(file, section), skipped=tuple(skipped))
    return CodeSettings(skipped=tuple(skipped))


def _found(start: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The files that may have settings, the nearest first, and the section in each."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / CONFIG):
            yield folder / CONFIG, ("check", "code")
        if (folder / "pyproject.toml").is_file():
            yield folder / "pyproject.toml", ("tool", "keepstep", "check", "code")


def _settings(file: Path, section: dict[str, Any]) -> CodeSettings:
    known = (*_LISTS, PER_FILE, "preview")
    unknown = set(section) - set(known)
    if unknown:
        raise UserError(f"{file}: [check.code] has no {min(unknown)}", hint=f"it has {', '.join(known)}")
    found: dict[str, Any] = {}
    for name in _LISTS:
        value = section.get(name, [])
        if not _is_list(value):
            raise UserError(f"{file}: [check.code] {name} must be a list of strings", hint=f'{name} = ["COD105"]')
        found[name] = tuple(value)
    if not isinstance(section.get("preview", False), bool):
        raise UserError(f"{file}: [check.code] preview must be true or false")
    given = section.get(PER_FILE, {})
    if not isinstance(given, dict) or not all(_is_list(each) and each for each in given.values()):
        raise UserError(
            f"{file}: [check.code] {PER_FILE} must be a table of lists",
            hint=f'{PER_FILE} = {{ "examples/*" = ["COD1"] }}',
        )
    per_file = tuple((pattern, tuple(rules)) for pattern, rules in given.items())
    return CodeSettings(preview=section.get("preview", False), per_file=per_file, **found)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
