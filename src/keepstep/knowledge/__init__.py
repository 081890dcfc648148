# SPDX-License-Identifier: Apache-2.0
"""What keepstep knows, as data. ``<who>/<subject>.toml``: the messages that WHO prints. Other tables stand beside them.

Here they are only read. Reading TOML takes long, and deriving from patterns what a search needs takes longer. So the
result goes to ``derived/``, under a seal: a hash over all it was made of. Where the seal no longer fits, because
somebody changed a row, it is made again. A wheel has it from the start, so nothing is written into an installation.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

FOLDER = os.path.dirname(__file__)
DERIVED = os.path.join(FOLDER, "derived")


def files(folder: str, ending: str) -> list[str]:
    """The paths of all files below a folder, in order."""
    found: list[str] = []
    folders = [folder]
    for at in folders:
        with os.scandir(at) as entries:
            for each in entries:
                if each.name.endswith(ending):
                    found.append(each.path)
                elif each.name not in ("__pycache__", "derived") and each.is_dir():
                    folders.append(each.path)
    return sorted(found, key=lambda path: path.split(os.sep))


def read_toml(path: str) -> dict[str, Any]:
    """What a data file says."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(path, "rb") as stream:
        return tomllib.load(stream)


def seal(paths: Iterable[str]) -> str:
    """A hash over the names and the content of files."""
    every = hashlib.blake2b(digest_size=16)
    for path in paths:
        with open(path, "rb") as stream:
            content = stream.read()
        every.update(f"{os.path.basename(path)} {len(content)}\n".encode())
        every.update(content)
    return every.hexdigest()


def read_derived(name: str) -> bytes:
    """What was derived last, of whatever it was made; empty if nothing was."""
    try:
        with open(os.path.join(DERIVED, name), "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def write_derived(name: str, body: bytes) -> bool:
    """Keep it for the next start, whole or not at all; says whether it could be kept."""
    temporary = os.path.join(DERIVED, f".{name}.{os.getpid()}")
    try:
        os.makedirs(DERIVED, mode=0o755, exist_ok=True)  # others may read it, and never change it
        with open(temporary, "wb", opener=lambda path, flags: os.open(path, flags, 0o644)) as stream:
            stream.write(body)
        os.replace(temporary, os.path.join(DERIVED, name))
    except OSError:
        return False
    return True


def read_table(name: str) -> dict[str, Any]:
    """What ``NAME.toml`` says: one of the tables beside the messages."""
    path = os.path.join(FOLDER, f"{name}.toml")
    key = seal([path]).encode()
    head, _, body = read_derived(name).partition(b"\n")
    if head == key:
        found: dict[str, Any] = json.loads(body)
        return found
    found = read_toml(path)
    write_derived(name, key + b"\n" + json.dumps(found).encode())
    return found
