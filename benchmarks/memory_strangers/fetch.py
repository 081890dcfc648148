# SPDX-License-Identifier: Apache-2.0
"""Brings the files of the listed programs into a folder that git ignores, at the listed commits.

    python -m benchmarks.memory_strangers.fetch [--from MIRRORS] [--into .strangers]

``--from``: a folder with a clone per repository, named ``owner+name``; without it they are cloned from GitHub.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tarfile
import tempfile
from array import array
from io import BytesIO
from pathlib import Path
from typing import Any

import tomllib

PROGRAMS = Path(__file__).with_name("programs.toml")
WORDS_OF_A_LINE = 1000


def listed() -> dict[str, dict[str, Any]]:
    return tomllib.loads(PROGRAMS.read_text(encoding="utf-8"))


def clone(repository: str, mirrors: Path | None, scratch: Path) -> Path:
    """The git directory of a repository."""
    if mirrors is not None:
        place = mirrors / repository.replace("/", "+")
        return next(each for each in (place / "repo/.git", place / "repo", place) if (each / "HEAD").exists())
    place = scratch / repository.replace("/", "+")
    address = f"https://github.com/{repository}"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", address, str(place)], check=True)
    return place


def make(what: str, path: Path) -> None:
    """Data of the right form: ``words 1000 300`` are a thousand words out of three hundred."""
    kind, count, different = what.split()
    chance = random.Random(path.name)
    drawn = [chance.randrange(int(different)) for _ in range(int(count))]
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "tokens":
        path.write_bytes(array("H", drawn).tobytes())
        return
    lines = (drawn[n : n + WORDS_OF_A_LINE] for n in range(0, len(drawn), WORDS_OF_A_LINE))
    path.write_text("\n".join(" ".join(f"w{each}" for each in line) for line in lines), encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", type=Path, dest="mirrors")
    parser.add_argument("--into", type=Path, default=Path(".strangers"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name, each in listed().items():
            folder = asked.into / name
            folder.mkdir(parents=True, exist_ok=True)
            place = clone(each["repository"], asked.mirrors, Path(scratch))
            command = ["git", f"--git-dir={place}", "archive", each["commit"], *each["files"]]
            packed = subprocess.run(command, check=True, capture_output=True).stdout
            with tarfile.open(fileobj=BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
            for path, what in each.get("made", {}).items():
                make(what, folder / path)
            print(f"{name}: {each['repository']} at {each['commit'][:12]} ({each['licence']})")


if __name__ == "__main__":
    main()
