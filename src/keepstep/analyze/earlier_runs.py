# SPDX-License-Identifier: Apache-2.0
"""What the failures of several runs have in common: a host, a GPU, a file, or an earlier fault of the same device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from keepstep.base.wording import count, duration
from keepstep.model.finding import Finding, Severity
from keepstep.model.report import Report
from keepstep.store.run_folders import Listed
from keepstep.story.blamed_parts import Culprits, culprits

MOST = 8
"""How many runs, the newest ones, are compared."""
MOST_TOLD = 4
FAILED = ("failed", "killed")


@dataclass(frozen=True)
class Ran:
    """A run and the report on it."""

    run: Listed
    report: Report

    @property
    def root(self) -> Finding | None:
        root = self.report.root
        return root if root is not None and root.severity is Severity.FATAL else None

    def about(self, finding: Finding) -> Culprits:
        return culprits(finding, self.run.manifest.host or None)


def latest_failure(listed: Sequence[Listed]) -> Listed:
    """The newest run that failed; else the newest that was stopped; else the newest."""
    for states in (FAILED, ("stopped",)):
        for run in reversed(listed):
            if run.state in states:
                return run
    return listed[-1]


def to_compare(listed: Sequence[Listed], latest: Listed) -> list[Listed]:
    """The runs before the latest failure that are worth explaining, the oldest first."""
    before = [run for run in listed if run.manifest.began < latest.manifest.began and run.state != "running"]
    return before[-MOST + 1 :]


def told(latest: Ran, before: Sequence[Ran], hosts: frozenset[str]) -> tuple[str, ...]:
    """What the earlier runs say about the latest failure, one sentence each. ``hosts``: of all runs here."""
    failures = [*(ran for ran in before if ran.run.state in FAILED and ran.root is not None), latest]
    lines: list[str] = []
    if latest.root is not None:
        lines += _in_common(latest, latest.root, failures, hosts)
        lines += _follows(latest, latest.root, before)
    for ran in reversed(failures[-MOST_TOLD - 1 : -1]):
        if ran.root is not None:
            lines.append(f"{ran.run.path.name}, {_ago(ran, latest)} before: {ran.root.title} ({ran.root.cause.value})")
    return tuple(lines)


def _in_common(latest: Ran, root: Finding, failures: Sequence[Ran], hosts: frozenset[str]) -> Iterator[str]:
    """How many of the last failures the same host, GPU or file began."""
    mine = latest.about(root)
    of = f"of the last {count(len(failures), 'failure')}"

    def alike(is_same: Callable[[Culprits], bool]) -> int:
        return sum(ran.root is not None and is_same(ran.about(ran.root)) for ran in failures)

    host = mine.host
    if host is not None and len(hosts | {host}) > 1 and (number := alike(lambda its: its.host == host)) > 1:
        yield f"host {host} began {number} {of}"
    for gpu in mine.gpus:
        if (number := alike(lambda its, gpu=gpu: its.host == host and gpu in its.gpus)) > 1:  # type: ignore[misc]
            yield f"{gpu}{f' on {host}' if host else ''} began {number} {of}"
            break
    for file in mine.files:
        if (number := alike(lambda its, file=file: file in its.files)) > 1:  # type: ignore[misc]
            yield f"{file} began {number} {of}"
            break
    same = sum(ran.root is not None and ran.root.cause is root.cause for ran in failures)
    if same > 1:
        yield f"{same} {of} had this cause, {root.cause.value}"


def _follows(latest: Ran, root: Finding, before: Sequence[Ran]) -> Iterator[str]:
    """A fault of the same hardware in an earlier run, though that run may have survived it."""
    mine = latest.about(root)
    for ran in reversed(before):
        for each in ran.report.findings:
            if not each.cause.value.startswith("hardware.") or each.cause is root.cause:
                continue
            its = ran.about(each)
            if its.host != mine.host or mine.host is None:
                continue
            shared = next((gpu for gpu in mine.gpus if gpu in its.gpus), None)
            if shared is None and (mine.gpus or its.gpus):
                continue
            where = f"{shared} on {mine.host}" if shared else f"host {mine.host}"
            yield f"this follows a fault of the same hardware ({where}) {_ago(ran, latest)} before: {each.title}"
            return


def _ago(ran: Ran, latest: Ran) -> str:
    ended = ran.run.manifest.ended or ran.run.manifest.began
    return duration(max((latest.run.manifest.ended or latest.run.manifest.began) - ended, 0.0))
