# SPDX-License-Identifier: Apache-2.0
"""Which packages are others where the program works, by what `pip freeze` says there. Nothing is installed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==([\w.!+-]+)", re.MULTILINE)


UNSAID = {"pip", "setuptools", "wheel", "distribute", "keepstep", "keepstep-lab"}
"""`pip freeze` leaves the first out, and no program that fails without keepstep needs the last."""


def package_differences(text: str, here: Mapping[str, str], imported: Collection[str]) -> list[str]:
    """Of each package with another version: both versions. What the program imports comes first."""
    there = {_plain(name): version for name, version in PINNED.findall(text)}
    first = {_plain(each.partition("==")[0]) for each in imported}
    names = sorted((there.keys() | here.keys()) - UNSAID)
    names = [name for name in names if there.get(name) != here.get(name)]
    names.sort(key=lambda name: name not in first)
    return [
        f"{name} {here.get(name, 'not installed')} here, {there.get(name, 'not installed')} there" for name in names
    ]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower())
