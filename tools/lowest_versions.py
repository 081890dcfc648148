# SPDX-License-Identifier: Apache-2.0
"""The base dependencies of pyproject.toml at the lowest versions that it allows, as a requirements file.

python -m tools.lowest_versions > lowest.txt
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_LOWEST = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)(?P<marker>;.*)?")


def lowest(requirement: str) -> str:
    """``rich>=13.0`` as ``rich==13.0``. Raises ``ValueError`` for one that is not bounded just so."""
    found = _LOWEST.fullmatch(requirement.replace(" ;", ";"))
    if found is None:
        raise ValueError(f"give it a lower bound and nothing else, as in name>=1.2: {requirement}")
    return f"{found['name']}=={found['version']}{found['marker'] or ''}"


def base_dependencies() -> list[str]:
    dependencies = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["dependencies"]
    return [str(each) for each in dependencies]


if __name__ == "__main__":
    print("\n".join(map(lowest, base_dependencies())))
