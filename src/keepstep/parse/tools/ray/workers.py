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
from keepstep.model.facts.config import ClusterSpecInvalid, NotScheduled, WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch
from keepstep.model.facts.environment import UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import ConnectFailed, PeerLost, PortTaken, RendezvousTimeout, Why
from keepstep.model.facts.platform import Preempted
from keepstep.model.facts.process import NativeAbort, ProcessExited, TaskNamed
from keepstep.model.facts.resource import DiskFull, OomKilled, SharedMemoryExhausted
from keepstep.model.facts.sync import CollectiveMismatch, RanksMissing
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
    # versions
    signature(r"Version mismatch: The cluster was started with", VersionConflict, component="Ray or Python"),
    signature(r"Changing the (?P<component>Python|ray|Ray) version (?:between|is not allowed)", VersionConflict),
    # host memory
    signature(
        r"(?:Task was|worker\(s\) were) killed due to the node running low on memory",
        OomKilled,
        by="Ray's memory monitor",
    ),
    # the killed task by its name: SkyPilot's "head, rank=0,", verl's "WorkerDict_0:3"
    signature(
        r"where the (?:task|lease|worker) \([^)\n]{0,160}\bname=(?:[\w.-]{1,60}, rank=(?P<rank>\d{1,5}),|\w{0,60}WorkerDict_0:(?P<local>\d{1,4}):)"
        r"[^)\n]{0,120}?\bpid=(?P<pid>\d+), memory used=",
        lambda m: OomKilled(by="Ray's memory monitor", rank=int(m["rank"] or m["local"]), pid=int(m["pid"])),
    ),
    signature(
        r"Ray killed this worker[^\n]{0,80}because it was the most recently scheduled task",
        OomKilled,
        by="Ray's memory monitor",
    ),
    signature(r"\d+ Workers \(tasks / actors\) killed due to memory pressure", OomKilled, by="Ray's memory monitor"),
    signature(r"OutOfMemoryError: Task was killed", OomKilled, by="Ray's memory monitor"),
    signature(r"More than \d+% of the memory on node \S+ is used", OomKilled, by="Ray's memory monitor"),
    signature(r"ray\.exceptions\.OutOfMemoryError", OomKilled, by="Ray's memory monitor"),
    signature(r"RayOutOfMemoryError", OomKilled, by="Ray's memory monitor"),
    # disk and object store
    signature(r"ray\.exceptions\.OutOfDiskError", DiskFull),
    signature(
        r"file_system_monitor[^\n]{0,40} (?P<path>/\S{1,300}) is over \d+% full, available space: 0(?:\.0+)?(?: GB)?;",
        DiskFull,
    ),
    signature(r"(?:ray\.exceptions\.)?ObjectStoreFullError", SharedMemoryExhausted, path="/dev/shm"),
    # a fatal word of old plasma stores; newer ones only warn, and take less
    signature(
        r"(?:\bF\d{4} |\bF \d+ \d+\]|FATAL|Check failed)[^\n]{0,160}[Ss]ystem memory request exceeds memory available in /dev/shm",
        SharedMemoryExhausted,
        path="/dev/shm",
    ),
    # a check that failed in the client of the object store, printed without glog's head
    signature(
        r"(?P<where>\S{0,200}plasma/\w{1,40}\.(?:cc|h):\d+):? (?P<what>Check failed: (?![^\n]{0,160}system memory request)[^\n]{1,300})",
        NativeAbort,
    ),
    # ends
    signature(r"Worker exit type: (?P<kind>[A-Z_]+)(?P<detail>[^\n]{0,600})?", _worker_end),
    signature(r"[Tt]he actor died unexpectedly before finishing this task", PeerLost, how="a Ray actor died"),
    signature(r"The actor is dead because its worker process has died", _dead),
    signature(r"[Aa] worker died or was killed while executing (?:a )?task", _dead),
    signature(r"WorkerCrashedError", PeerLost, how="a Ray worker died"),
    signature(r"The actor (?:is dead|died) because its node has died", PeerLost, how="a Ray node died"),
    signature(
        r"the actor's node was (?:preempted|terminated expectedly): ?(?P<reason>[^\n]{0,120})",
        Preempted,
        by="Ray's autoscaler",
    ),
    signature(r"(?P<how>the actor's node was terminated(?: unexpectedly)?): ", PeerLost),
    signature(
        r"Task failed because the node it was running on is dead or unavailable|Task failed due to the node dying"
        r"|\) where this task was running crashed unexpectedly",
        PeerLost,
        how="the Ray node of a task died",
    ),
    signature(
        r"The actor is dead because its owner has died", PeerLost, how="the process that had started a Ray actor died"
    ),
    signature(
        r"Owner worker exit type: (?P<kind>[A-Z_]+)(?P<detail> Worker exit detail: (?!Owner's )[^\n]{0,600})",
        _worker_end,
    ),
    signature(
        r"[Tt]he node with (?:node id|client ID):? (?P<peer>\w+)[^\n]{0,200}has been marked dead",
        PeerLost,
        how="a Ray node was marked dead",
    ),
    signature(r"(?P<how>this node manager has mistakenly been marked (?:as )?dead)", PeerLost),
    signature(
        r"(?P<how>The raylet (?:was|has) (?:killed|died|terminated)|[Rr]aylet (?:is terminated|died|crashed|exited unexpectedly))",
        PeerLost,
    ),
    signature(
        r"Some Ray (?:sub)?processes (?:exited|died) unexpectedly|Ray processes died unexpectedly",
        PeerLost,
        how="Ray's own processes died",
    ),
    signature(r"NodeDiedError|ray\.exceptions\.LocalRayletDiedError", PeerLost, how="a Ray node died"),
    signature(r"ray\.exceptions\.OwnerDiedError", PeerLost, how="the owner of an object died"),
    signature(
        r"The actor \w+ is unavailable: [^\n]{0,300}may or may not have been executed",
        PeerLost,
        how="a Ray actor did not answer",
    ),
    signature(r"Failed to look up actor with name '[^'\n]{1,120}'", PeerLost, how="a named Ray actor was not there"),
    signature(r"All copies of \w+ have been lost due to node failure", PeerLost, how="a Ray node died"),
    # the head
    signature(r"Failed to connect to GCS at address (?P<peer>[\w.:\-]+)", ConnectFailed, why=Why.FAILED),
    signature(r"Failed to connect to GCS within \d+ seconds", ConnectFailed, why=Why.TIMED_OUT, peer="Ray's GCS"),
    signature(
        r"[Uu]nable to connect to (?:GCS|Redis)(?: \(ray head\))?(?: at (?P<peer>[\w.\-]+(?::\d+)?))?",
        ConnectFailed,
        why=Why.FAILED,
    ),
    signature(r"Could not find any running Ray instance", ConnectFailed, why=Why.FAILED, peer="a Ray cluster"),
    signature(r"ray client[^\n]{0,60}connection (?:timeout|timed out)", ConnectFailed, why=Why.TIMED_OUT),
    # what the cluster does not have
    signature(
        r"No available node types can fulfill (?:resource request|placement group request|cluster constraint)s? ?(?P<asked>\{[^}\n]{0,160}\})?",
        _unschedulable,
    ),
    signature(
        r"Placement group creation timed out[^\n]{0,600}?requested by the (?:placement group|bundle): ?(?P<asked>[^\n]{0,120})",
        _unschedulable,
    ),
    signature(r"Placement group creation timed out(?![^\n]{0,600}requested by the )", NotScheduled, by="Ray"),
    signature(
        r"(?:The worker group startup timed out after|WorkerGroupStartupTimeoutError)[^\n]{0,40}?(?:waiting for (?P<asked>\d+ workers))?",
        NotScheduled,
        by="Ray",
        never=False,
    ),
    signature(
        r"You asked for (?P<asked>[\d.]{1,12} (?:CPUs|cpus?) and [\d.]{1,12} (?:GPUs|gpus?))[^\n]{0,30}?, but the cluster only has ",
        _unschedulable,
    ),
    signature(
        r"Training has not started in the last \d{1,6} seconds\. This could be due to the cluster not having enough resources available\. (?!You asked for )",
        NotScheduled,
        by="Ray",
        never=False,
    ),
    signature(
        r"placement group bundle index (?P<expected>\d+) is invalid\. Valid placement group indexes: (?P<seen>[\d\-]+)",
        WorldSizeConflict,
        what="bundles of Ray's placement group",
    ),
    signature(
        r"Cannot schedule \S{1,80} with the placement group because the (?:actor|resource request|task)[^\n{]{0,20} (?:requires )?(?P<asked>\{[^}\n]{0,120}\})?",
        _unschedulable,
    ),
    signature(
        r"(?:The following resource request|The actor or task with ID \S{1,60}|Warning: The following resource request) cannot be scheduled right now:? ?(?P<asked>\{[^}\n]{0,120}\})?",
        NotScheduled,
        by="Ray",
        never=False,
    ),
    signature(
        r"Ray does not allocate any GPUs on the driver node", NotScheduled, by="Ray", asked="a GPU on the driver's node"
    ),
    signature(
        r"The number of required (?:GPU|TPU|HPU|XPU)s exceeds the total number of available (?:GPU|TPU|HPU|XPU)s in the (?:placement group|cluster)",
        NotScheduled,
        by="Ray",
        asked="more devices than the cluster has",
    ),
    signature(
        r"The current node (?:timed out during startup|has not been updated within \d+ seconds)",
        RendezvousTimeout,
        where="Ray's own start",
    ),
    # the call in a traceback: all that NeMo-RL and others say about a placement group that never came
    signature(
        r"\bray\.get\([\w.\[\] ]{1,60}\.ready\(\)[^\n]{0,30}timeout", NotScheduled, by="Ray", asked="a placement group"
    ),
    signature(r"GetTimeoutError: Get timed out: some object", RendezvousTimeout, where="remote call"),
    signature(
        r"RayChannelTimeoutError: (?:System error: )?Timed out (?:waiting for|acquiring|setting|writing)",
        RendezvousTimeout,
        where="remote call",
    ),
    signature(r"The (?:task|actor) is not schedulable: (?P<asked>[^\n]{0,120})", _unschedulable),
    signature(
        r"Timed out waiting for placement groups? to be ready[^\n]{0,300}?cluster (?:may not|does not) have enough resources",
        NotScheduled,
        by="Ray",
    ),
    # Ray Train
    signature(
        r"The following ranks have not joined the collective operation: \[(?P<missing>[\d, ]+)\]",
        RanksMissing,
        what="ray.train.report",
    ),
    signature(
        r"for the following ranks to join the `(?P<what>[\w.]{1,60})` call: \[(?P<missing>[\d, ]+)\]",
        RanksMissing,
        final=False,
    ),
    signature(
        r"Some workers returned results while others didn't", CollectiveMismatch, what="how often the ranks reported"
    ),
    signature(
        r"A worker health check has been hanging for [\d.]+ seconds",
        PeerLost,
        how="a Ray Train worker stopped answering",
    ),
    signature(r"A worker health check failed\.", PeerLost, how="a Ray Train worker could not be polled"),
    signature(r"distributed_context=DistributedContext\(world_rank=(?P<rank>\d+)", TaskNamed),
    signature(
        r"Training was interrupted by node preemption \(preempted_ranks=\[(?P<rank>\d+)?",
        Preempted,
        by="Ray's autoscaler",
    ),
    signature(r"PreemptionWatcher: (?P<reason>preemption detected)", Preempted, by="Ray's autoscaler"),
    signature(r"Timed out (?:while )?waiting for placement group", RendezvousTimeout, where="Ray Train"),
    signature(
        r"(?P<reason>Expected termination|Terminated due to preemption): [^\n]{0,20}received SIGTERM",
        Preempted,
        by="Ray autoscaler",
    ),
    signature(r"Failed to bind to (?P<address>\S{1,80}?):(?P<port>\d+) because it's already occupied", PortTaken),
    signature(r"No available ports\. Please specify a wider port range", PortTaken),
    signature(r"Failed to put object \w{1,80} in object store because it is full", SharedMemoryExhausted),
    signature(
        r"Each actor should correspond to one rank\. Got '(?P<seen>\d+)' ranks but '(?P<expected>\d+)' actors",
        WorldSizeConflict,
        what="ranks and actors",
    ),
    signature(r"Error: (?P<detail>CUDA_VISIBLE_DEVICES set incorrectly\. Got [^\n]{1,80})", ClusterSpecInvalid),
    signature(r"(?P<detail>Unable to set up cluster storage with the following settings)", ClusterSpecInvalid),
    signature(
        r"Error: (?P<detail>Unable to parse port number from [^\n]{1,120}|Malformed (?:host|address):? \S{1,80}"
        r"|Port is not specified for address \S{1,80}|Invalid redis address \S{1,80})",
        ClusterSpecInvalid,
    ),
    signature(
        r"Some workers returned results while others didn't\. Make sure that (?P<what>[^\n]{1,60}?) (?:are|is) called the same number of times",
        CollectiveMismatch,
    ),
    signature(r"Error: Tensors must have identical dtype\. Got", DtypeMismatch),
    signature(
        r"Unable to (?:get the NCCLUniqueID from the store|meet other processes at the rendezvous store)",
        lambda m: RanksMissing(missing=(), what="rendezvous of Ray's collective group"),
    ),
    signature(
        r"All copies of \w{1,80} have been lost due to node failure", PeerLost, how="a node of the Ray cluster failed"
    ),
    signature(r"(?P<how>GCS considers? this node to be dead)", PeerLost),
    signature(r"Failed to start GCS\. Last connection error", ConnectFailed, why=Why.FAILED, peer="Ray's GCS"),
    signature(
        r"Failed to reserve (?:a )?(?P<asked>TPU (?:head|slice)[^\n]{0,40}?)(?: after \d|: |$)",
        lambda m: NotScheduled(by="Ray", asked=m["asked"], never=False),
    ),
    signature(r"Error: (?P<what>Torch tensor must be on GPU when using NCCL collectives)", UnsupportedCombination),
)
