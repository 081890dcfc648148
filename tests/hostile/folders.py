# SPDX-License-Identifier: Apache-2.0
"""Folders that a stranger made: names, links, pipes and devices. Builders for the tests; each returns what it made."""

from __future__ import annotations

import os
import socket
from pathlib import Path

CRASH = "[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
"""A line that `why` names a cause for, where it is read."""

ODD_NAMES = (
    "1²3",
    "rank²",
    "rank٣.log",
    "rank" + "9" * 200 + ".log",
    "-rf",
    "--json",
    " ",
    "a b\tc",
    "line\nbreak.log",
    "\x1b]0;owned\x07.log",
    "\u202egol.log",
    "\u200bhidden.log",
    "<img src=x onerror=alert(1)>.log",
    "{{7*7}}.log",
    "$(touch owned).log",
    "%s%n.log",
    "node\udcff.log",
    "rank0-0.box",
    "core.²",
)
"""File names that have crashed or fooled programs. Surrogates stand for bytes that are no UTF-8."""


def odd_names(folder: Path, text: str = CRASH) -> list[Path]:
    """A small log under each odd name."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / name for name in ODD_NAMES]
    for path in made:
        path.write_text(text)
    return made


def links_out(folder: Path, outside: Path) -> dict[str, Path]:
    """Links out of ``folder``: to a file, to a folder, over several hops, to the kernel's folders, to nowhere."""
    folder.mkdir(parents=True, exist_ok=True)
    outside.mkdir(parents=True, exist_ok=True)
    secret = outside / "secret.log"
    secret.write_text("password=hunter2-outside\n" + CRASH)
    targets = {
        "file.log": secret,
        "folder": outside,
        "hop.log": folder / "file.log",
        "up": folder / "..",
        "environ.log": Path("/proc/self/environ"),
        "proc": Path("/proc/self"),
        "sys": Path("/sys/kernel"),
        "zero.log": Path("/dev/zero"),
        "stdin.log": Path("/dev/stdin"),
        "nowhere.log": outside / "not-there.log",
        "loop.log": folder / "loop.log",
    }
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    return {name: folder / name for name in targets}


def pipes_and_sockets(folder: Path) -> list[Path]:
    """What blocks a process that opens it: a pipe without a writer, and a socket."""
    folder.mkdir(parents=True, exist_ok=True)
    pipe, listening = folder / "rank0.log", folder / "s.log"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as bound:
        was = os.getcwd()
        os.chdir(folder)  # the name of a socket has at most 107 bytes
        try:
            bound.bind(listening.name)
        finally:
            os.chdir(was)
    return [pipe, listening]


def deep(folder: Path, levels: int = 1500) -> Path:
    """Nested folders, deeper than Python recurses, with a log at the end. Remove them with ``rm -r``, not Python."""
    folder.mkdir(parents=True, exist_ok=True)
    was = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(levels):
            os.mkdir("d")
            os.chdir("d")
        Path("rank0.log").write_text(CRASH)
    finally:
        os.chdir(was)
    return folder
