# SPDX-License-Identifier: Apache-2.0
"""Which versions of the packages that rules ask about a project wants: requirements, pyproject, setup.cfg, conda."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.model.facts.config_files import PackageAsked

_FILES = re.compile(r"requirements[\w.-]*\.txt|pyproject\.toml|setup\.cfg|environment[\w.-]*\.ya?ml")
_ASKED = re.compile(
    r"""(?:^[ \t]*(?:-[ \t]*)?|["'])(tensorflow(?:[-_](?:cpu|gpu|intel|macos))?|keras|tf[-_]keras)(?![\w.-])"""
    r"""(?:\[[^\]\n]{0,80}\])?[ \t]*(?:=[ \t]*(?:\{[^}\n]{0,80}?version[ \t]*=[ \t]*)?["'])?([^;#"'\n]{0,80})""",
    re.M,
)
_SPEC = re.compile(r"[\s,.*~^<>=!\w+-]*")


def lists_packages(name: str) -> bool:
    """Whether a file of this name says which packages a project needs."""
    return _FILES.fullmatch(name) is not None


def packages_asked(text: str) -> Iterator[tuple[int, PackageAsked]]:
    """The packages, each with its line. Most are none that a rule asks about."""
    for each in _ASKED.finditer(text):
        spec = each[2].strip()
        if _SPEC.fullmatch(spec) and (not spec or not spec[0].isalpha()):
            line = text.count("\n", 0, each.start(1)) + 1
            yield line, PackageAsked(package=each[1].replace("_", "-"), spec=spec)
