# SPDX-License-Identifier: Apache-2.0
"""What a project says about its own check: ``[check.code]`` in the nearest ``keepstep.toml``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keepstep.errors import UserError
from keepstep.extend.rule_folders import Unusable, found_upwards, read_toml

_LISTS = ("select", "ignore", "exclude")


@dataclass(frozen=True, kw_only=True)
class CodeSettings:
    """``exclude``: names of files and folders that are not read."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    preview: bool = False
    skipped: tuple[tuple[str, str], ...] = ()
    """What has the name of settings but cannot be opened, and why: a pipe in a folder above must not stop a check."""


def settings_near(path: Path) -> CodeSettings:
    """The settings of the project that a path belongs to. Raises ``UserError`` if they cannot be used."""
    start = path.resolve()
    skipped: list[tuple[str, str]] = []
    for file in found_upwards(start if start.is_dir() else start.parent):
        try:
            section = read_toml(file).get("check", {})
        except OSError as error:
            skipped.append((str(file), error.strerror or "it cannot be read"))
            continue
        except Unusable as error:
            raise UserError(f"{file}: {error}") from error
        if isinstance(section, dict) and isinstance(section.get("code"), dict):
            return replace(_settings(file, section["code"]), skipped=tuple(skipped))
    return CodeSettings(skipped=tuple(skipped))


def _settings(file: Path, section: dict[str, Any]) -> CodeSettings:
    unknown = set(section) - {*_LISTS, "preview"}
    if unknown:
        raise UserError(f"{file}: [check.code] has no {min(unknown)}", hint=f"it has {', '.join((*_LISTS, 'preview'))}")
    found: dict[str, Any] = {}
    for name in _LISTS:
        value = section.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UserError(f"{file}: [check.code] {name} must be a list of strings", hint=f'{name} = ["COD105"]')
        found[name] = tuple(value)
    if not isinstance(section.get("preview", False), bool):
        raise UserError(f"{file}: [check.code] preview must be true or false")
    return CodeSettings(preview=section.get("preview", False), **found)
