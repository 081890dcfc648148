# SPDX-License-Identifier: Apache-2.0
"""What development and CI install is pinned with hashes, agrees with pyproject.toml, and leaves out what it has to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tools.lowest_versions import PYPROJECT, base_dependencies, lowest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PINNED = ("dev.txt", "plain.txt")
"""What keepstep is developed with. docs.txt builds the site and holds nothing of keepstep's own needs."""
EXTRAS = {"dev.txt": ("test", "dev"), "plain.txt": ("test",)}
NOT_PLAIN = {"hyperscan", "pystack"}


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def entries(file: str) -> list[str]:
    """Each requirement with its hashes, in one line."""
    text = (ROOT / "requirements" / file).read_text("utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))


@pytest.mark.parametrize("file", (*PINNED, "docs.txt"))
def test_every_requirement_has_one_version_and_hashes(file: str) -> None:
    every = entries(file)
    assert len(every) > 15
    for each in every:
        assert re.match(r"[\w.-]+==[\w.]+ ", each), each
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", each), each


@pytest.mark.parametrize("file", PINNED)
def test_what_pyproject_asks_for_is_pinned_within_its_bounds(file: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))
    wanted = [
        *base_dependencies(),
        *(each for extra in EXTRAS[file] for each in project["project"]["optional-dependencies"][extra]),
    ]
    wanted += project["build-system"]["requires"]
    pinned = {name_of(each): each for each in entries(file)}
    for requirement in wanted:
        name = name_of(requirement)
        if name == "keepstep" or (file == "plain.txt" and name in NOT_PLAIN):
            continue
        assert name in pinned, f"{name} is not in requirements/{file}: run `make lock`"
        bound = re.search(r">=([\w.]+)", requirement)
        version = re.search(r"==([\w.]+)", pinned[name])
        assert bound is None or (version is not None and numbers(version[1]) >= numbers(bound[1])), requirement


def test_pytorch_cuda_and_keepstep_itself_are_not_pinned() -> None:
    for file in PINNED:
        names = {name_of(each) for each in entries(file)}
        assert not {name for name in names if name in ("torch", "keepstep", "triton") or name.startswith("nvidia-")}
    assert not NOT_PLAIN & {name_of(each) for each in entries("plain.txt")}


def test_setup_takes_nothing_without_a_hash_but_pytorch_and_keepstep() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for environment in ("VENV", "PLAIN", "DOCS"):
        rule = makefile.split(f"\n$({environment})/.ready:")[1].split("\n\n")[0]
        installs = [
            line.strip()
            for line in rule.splitlines()
            if "$(PINNED)" in line or "$(ITSELF)" in line or "pip install" in line
        ]
        assert any("$(PINNED) requirements/" in line for line in installs), installs
        assert all("$(PINNED)" in line or "$(ITSELF)" in line or "'$(TORCH)'" in line for line in installs), installs
    assert "--require-hashes" in makefile.split("PINNED :=")[1].splitlines()[0]


def test_lowest_versions_are_those_of_the_bounds() -> None:
    assert lowest("rich>=13.0") == "rich==13.0"
    assert lowest("tomli>=2.0; python_version < '3.11'") == "tomli==2.0; python_version < '3.11'"
    with pytest.raises(ValueError, match="lower bound"):
        lowest("rich")
    assert len([lowest(each) for each in base_dependencies()]) >= 4


def test_what_builds_the_site_is_pinned() -> None:
    asked = [line for line in (ROOT / "requirements" / "docs.in").read_text().splitlines() if line[:1] not in ("", "#")]
    assert {name_of(each) for each in asked} <= {name_of(each) for each in entries("docs.txt")}
