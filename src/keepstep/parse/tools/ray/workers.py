# SPDX-License-Identifier: Apache-2.0
"""Ray: workers, actors, raylets, the GCS, and Ray Train on top of them.

A dead worker's message lists guesses ("killed by SIGKILL by OOM killer", "ray stop",
"SIGSEGV"): they are not observations. What is observed is that the worker's pipe closed
without a word, as with SIGKILL. What Ray itself did (its memory monitor killed a task,
versions differ, a request that no node can meet) is reported as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import NotScheduled
from keepstep.model.facts.network import PeerLost
from keepstep.model.facts.process import ProcessExited
from keepstep.model.facts.resource import OomKilled
from keepstep.model.facts.sync import RanksMissing
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature

_WITHOUT_A_WORD = lazy_pattern(
    r"connection error code \d+\. (?:End of file|Connection reset by peer|Broken pipe)|exit code None|exceeded K8s pod memory limits|killed by SIGKILL by OOM killer due to high memory"
)
"""The raylet only saw the pipe close: nothing was caught or raised, as with SIGKILL."""
_ENDS = {
    "SYSTEM_ERROR": 1,
    "NODE_OUT_OF_MEMORY": None,
    "INTENDED_SYSTEM_EXIT": 0,
    "INTENDED_USER_EXIT": 0,
    "USER_ERROR": 1,
}


def _worker_end(match: re.Match[str]) -> ProcessExited | OomKilled | None:
    kind, detail = match["kind"], match["detail"] or ""
    if kind == "NODE_OUT_OF_MEMORY":
        return OomKilled(by="Ray's memory monitor")
    code = _ENDS.get(kind)
    if not code:
        return None
    if _WITHOUT_A_WORD.search(detail):
        return ProcessExited(reporter="Ray", signal="SIGKILL")
    return ProcessExited(reporter="Ray", code=code)


def _dead(match: re.Match[str]) -> PeerLost | None:
    """The rest of the line says whether the worker ended without a message."""
    return None if _WITHOUT_A_WORD.search(match.string) else PeerLost(how="a Ray worker died")


_SINCE = lazy_pattern(r"\(running for (?P<hours>\d\d):(?P<minutes>\d\d):")
_NONE_GIVEN = lazy_pattern(r"^Resources requested: 0(?:\.0)?/")
_ALL_WAIT = lazy_pattern(r"^Number of trials: (?P<all>\d+)/(?P=all) \((?P=all) PENDING\)")
TABLE_LINES = 12


def _trials(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """Tune's table: a minute and more after the start, nothing was given out and all trials wait."""
    late = none_given = False
    for _, line in zip(range(TABLE_LINES), lines, strict=False):
        since = _SINCE.search(line)
        late = late or bool(since and (int(since["hours"]) or int(since["minutes"])))
        none_given = none_given or bool(_NONE_GIVEN.match(line))
        wait = _ALL_WAIT.match(line)
        if wait:
            if late and none_given:
                yield NotScheduled(by="Ray", asked=f"resources for {wait['all']} trials, all PENDING", never=False)
            return


def _unschedulable(match: re.Match[str]) -> NotScheduled:
    return NotScheduled(by="Ray", asked=match["asked"])


BLOCKS = (block(r"^== Status ==", _trials),)

SIGNATURES = (
    # the killed task by its name: SkyPilot's "head, rank=0,", verl's "WorkerDict_0:3"
    signature(
        r"where the (?:task|lease|worker) \([^)\n]{0,160}\bname=(?:[\w.-]{1,60}, rank=(?P<rank>\d{1,5}),|\w{0,60}WorkerDict_0:(?P<local>\d{1,4}):)"
        r"[^)\n]{0,120}?\bpid=(?P<pid>\d+), memory used=",
        lambda m: OomKilled(by="Ray's memory monitor", rank=int(m["rank"] or m["local"]), pid=int(m["pid"])),
    ),
    # ends
    signature(r"Worker exit type: (?P<kind>[A-Z_]+)(?P<detail>[^\n]{0,600})?", _worker_end),
    signature(r"The actor is dead because its worker process has died", _dead),
    signature(r"[Aa] worker died or was killed while executing (?:a )?task", _dead),
    signature(
        r"Owner worker exit type: (?P<kind>[A-Z_]+)(?P<detail> Worker exit detail: (?!Owner's )[^\n]{0,600})",
        _worker_end,
    ),
    # what the cluster does not have
    signature(
        r"No available node types can fulfill (?:resource request|placement group request|cluster constraint)s? ?(?P<asked>\{[^}\n]{0,160}\})?",
        _unschedulable,
    ),
    signature(
        r"Placement group creation timed out[^\n]{0,600}?requested by the (?:placement group|bundle): ?(?P<asked>[^\n]{0,120})",
        _unschedulable,
    ),
    signature(
        r"You asked for (?P<asked>[\d.]{1,12} (?:CPUs|cpus?) and [\d.]{1,12} (?:GPUs|gpus?))[^\n]{0,30}?, but the cluster only has ",
        _unschedulable,
    ),
    signature(
        r"Cannot schedule \S{1,80} with the placement group because the (?:actor|resource request|task)[^\n{]{0,20} (?:requires )?(?P<asked>\{[^}\n]{0,120}\})?",
        _unschedulable,
    ),
    signature(r"The (?:task|actor) is not schedulable: (?P<asked>[^\n]{0,120})", _unschedulable),
    # Ray Train
    signature(
        r"Unable to (?:get the NCCLUniqueID from the store|meet other processes at the rendezvous store)",
        lambda m: RanksMissing(missing=(), what="rendezvous of Ray's collective group"),
    ),
    signature(
        r"Failed to reserve (?:a )?(?P<asked>TPU (?:head|slice)[^\n]{0,40}?)(?: after \d|: |$)",
        lambda m: NotScheduled(by="Ray", asked=m["asked"], never=False),
    ),
)
