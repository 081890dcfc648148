# SPDX-License-Identifier: Apache-2.0
"""The kernel log of this host for some minutes: /dev/kmsg, else journalctl, else dmesg."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from datetime import datetime

from keepstep.base.whole_numbers import whole
from keepstep.model.evidence import Coverage, CoverageState

_KMSG = "/dev/kmsg"
_WHAT = "kernel log of this host"
LIMIT_S = 10.0
MOST_LINES = 200_000
MOST_RECORD = 8192

Lines = list[tuple[float, str]]


def read_kernel_log(since: float | None, until: float | None) -> tuple[Lines, list[Coverage]]:
    """Lines of that window as (seconds since the epoch, text), oldest first, and what could be read."""
    why: list[str] = []
    for read in (_from_kmsg, _from_journal, _from_dmesg):
        try:
            lines = read(since, until)
        except _LogRefused as error:
            why.append(str(error))
            continue
        return lines, [Coverage(what=_WHAT, state=CoverageState.CHECKED)]
    return [], [Coverage(what=_WHAT, state=CoverageState.UNAVAILABLE, why="; ".join(why))]


class _LogRefused(Exception):
    """This way to the log is closed."""


def parse_record(record: str, booted: float) -> tuple[float, str] | None:
    """One record of /dev/kmsg: ``6,339,5140900,-;text`` and continuation lines ``  KEY=value``."""
    head, split, text = record.partition(";")
    fields = head.split(",")
    if not split or len(fields) < 3 or whole(fields[2]) is None:
        return None
    return booted + int(fields[2]) / 1e6, text.split("\n", 1)[0]


def _from_kmsg(since: float | None, until: float | None) -> Lines:
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    if until is not None and until < booted:
        raise _LogRefused("the host was booted after the run")
    try:
        descriptor = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _LogRefused(f"{_KMSG}: {(error.strerror or 'closed').lower()}") from None
    lines: Lines = []
    oldest_us = int((since - booted) * 1e6) if since is not None else 0
    try:
        for _ in range(MOST_LINES):
            try:
                record = os.read(descriptor, MOST_RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten while we read
                continue
            except OSError as error:
                raise _LogRefused(f"{_KMSG}: {(error.strerror or 'closed').lower()}") from None
            if not record:
                break
            if _is_before(record, oldest_us):
                continue
            parsed = parse_record(record.decode("utf-8", "replace"), booted)
            if parsed is not None and _inside(parsed[0], since, until):
                lines.append(parsed)
    finally:
        os.close(descriptor)
    return lines


def _is_before(record: bytes, oldest_us: int) -> bool:
    """Decided by the third field alone: most of a log is too old."""
    fields = record.split(b",", 3)
    return len(fields) > 3 and fields[2].isdigit() and int(fields[2]) < oldest_us  # bytes


def _from_journal(since: float | None, until: float | None) -> Lines:
    command = ["journalctl", "--dmesg", "--boot=all", "--quiet", "--no-pager", "--output=short-unix"]
    command += [f"--since=@{since:.0f}"] if since is not None else ["--since=-1d"]
    command += [f"--until=@{until + 1:.0f}"] if until is not None else []
    lines: Lines = []
    for line in _output(command):
        match = re.match(r"(\d+(?:\.\d+)?) \S+ (.*)", line)
        if match and _inside(float(match[1]), since, until):
            lines.append((float(match[1]), match[2]))
    if not lines:
        raise _LogRefused("journalctl has no kernel messages from that time")
    return lines


def _from_dmesg(since: float | None, until: float | None) -> Lines:
    lines: Lines = []
    for line in _output(["dmesg", "--time-format", "iso", "--nopager"]):
        stamp, _, text = line.partition(" ")
        try:
            at = datetime.fromisoformat(stamp.replace(",", ".")).timestamp()
        except ValueError:
            continue
        if _inside(at, since, until):
            lines.append((at, text))
    return lines


def _output(command: list[str]) -> list[str]:
    name = command[0]
    if shutil.which(name) is None:
        raise _LogRefused(f"{name} is not installed")
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL, env=environment
        )
    except subprocess.TimeoutExpired:
        raise _LogRefused(f"{name} did not finish") from None
    except OSError as error:
        raise _LogRefused(f"{name}: {(error.strerror or 'failed').lower()}") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _LogRefused(words[-1][:120] if words else f"{name} ended with status {done.returncode}")
    return done.stdout.decode("utf-8", "replace").splitlines()[:MOST_LINES]


def _inside(at: float, since: float | None, until: float | None) -> bool:
    return (since is None or at >= since) and (until is None or at <= until)
