# SPDX-License-Identifier: Apache-2.0
"""How large a program says that its world is, and how many processes a launcher was asked for."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ProcessesStarted, WorldSeen
from keepstep.parse.scan.signature import by_hand, signature


def _world(match: re.Match[str]) -> Fact:
    """Who a process is; a world of one has no rank to tell apart."""
    groups = match.groupdict()
    size = int(groups["size"])
    index = int(groups["index"]) if groups.get("index") and size > 1 else None
    return WorldSeen(size=size, index=index, rank=index)


def _one(match: re.Match[str]) -> Fact:
    return WorldSeen(size=1)


def _started(match: re.Match[str]) -> Fact | None:
    groups = match.groupdict()
    count = int(groups["count"]) + (1 if groups.get("last") else 0)
    return ProcessesStarted(count=count, by=(groups.get("by") or "MPI").strip()) if count > 1 else None


def _described(match: re.Match[str]) -> Fact | None:
    """The workers of a printed TF_CONFIG; with parameter servers each worker rightly counts itself alone."""
    text = match.string
    if re.search(r"['\"]ps['\"]\s*:", text):
        return None
    lists = re.findall(r"['\"](?:worker|chief|master)['\"]\s{0,8}:\s{0,8}\[([^\[\]\n]{1,4000})\]", text)
    count = sum(len(re.findall(r"['\"][^'\"]+['\"]", each)) for each in lists)
    return ProcessesStarted(count=count, by="TF_CONFIG") if count > 1 else None


_IS = r"['\"]?(?: is| =|=|:| :|->) ?"

SIGNATURES = (
    # What the program formed
    signature(rf"\bhvd\.size\(\){_IS}(?P<size>\d{{1,5}})\b", _world),
    signature(rf"\b[Hh]orovod(?: world)?[ _]size{_IS}(?P<size>\d{{1,5}})\b", _world),
    signature(
        r"\b(?:JAX |jax )(?:process|host)(?: index)?:? (?P<index>\d{1,5}) ?(?:/|of) ?(?P<size>\d{1,5})\b", _world
    ),
    signature(rf"\b(?:jax\.)?process_count(?:\(\))?{_IS}(?P<size>\d{{1,5}})\b", _world),
    signature(r"\bnum_processes[=:] ?(?P<size>\d{1,5}),? (?:and )?process_id[=:] ?(?P<index>\d{1,5})\b", _world),
    signature(r"\b\d{1,6} devices, (?P<size>\d{1,5}) hosts?\b", _world),
    signature(
        r"\b(?:[Pp]rocess|[Rr]ank)(?: index| id)?:? (?P<index>0) ?(?:of|/|out of) ?(?P<size>\d{1,4})(?![\d/:.%])",
        _world,
        anchors=by_hand(
            "ranks and processes are on many lines; of a world, the first speaks for all",
            *(
                f"{who} 0{of}"
                for who in ("rocess", "ank", "index", "ank:", "rocess:")
                for of in (" of ", "/1", " / 1", " out of ")
            ),
        ),
    ),
    signature(
        r"\brank ?[=:]? ?(?P<index>\d{1,5}),? (?:world[ _])?size ?[=:]? ?(?P<size>\d{1,5})\b",
        _world,
        anchors=by_hand(
            "ranks and sizes are on many lines; of a world, the first speaks for all",
            "rank 0 size",
            "rank=0, size",
            "rank: 0, size",
            "rank 0, size",
            "rank = 0, size",
            "rank:0, size",
            "rank=0 size",
            "rank: 0 size",
            "rank=0, world_size",
            "rank: 0, world_size",
            "rank: 0, world size",
            "rank 0, world size",
            "rank 0 world size",
        ),
    ),
    signature(
        r"\bsize ?[=:]? ?(?P<size>\d{1,5}),? (?:(?:local_|hvd )?rank) ?[=:]? ?(?P<index>\d{1,5})\b",
        _world,
        anchors=by_hand(
            "sizes and ranks are on many lines; only a world of one is of interest",
            "size 1 rank",
            "size=1, rank",
            "size: 1, rank",
            "size 1, rank",
            "size = 1, rank",
            "size:1, rank",
            "size=1 rank",
            "size: 1 rank",
        ),
    ),
    signature(r"\bNot using distributed mode", _one),
    # programs that do not find their launcher's variables
    signature(
        r"\b(?:[Ss]witch(?:ing|ed)?|[Ff]all(?:ing|s|en)? ?back|[Rr]evert(?:ing|ed)?|[Dd]efault(?:ing|s)?) (?:back )?to (?:a )?"
        r"(?:serial|single[- ](?:process|rank|worker|node)) (?:execution|training|mode|run)\b",
        _one,
        anchors=by_hand(
            "the words before it are on many lines",
            *(
                f"{kind} {what}"
                for kind in ("serial", "process", "rank", "worker", "node")
                for what in ("execution", "training", "mode", "run")
            ),
        ),
    ),
    signature(r"\bTraining with a single process on (?:\d+ )?", _one),
    signature(r"Process rank: -?\d+, device: [^\n]{0,80}?distributed training: False", _one),
    signature(
        r"Discovered MPI settings of world_rank=(?P<index>\d+), local_rank=\d+, world_size=(?P<size>\d+)", _world
    ),
    signature(
        r"\b(?:I am|I'm|This is) (?:process |rank )(?P<index>\d{1,5}),? (?:in|of|out of) (?:this |a |the )?(?:world |total )?(?:of |size |group )*(?:size )?(?P<size>\d{1,5})\b",
        _world,
    ),
    signature(r"Rank of current process: (?P<index>\d+)\. World size: (?P<size>\d+)", _world),
    signature(
        r"Process (?P<index>\d+), total (?P<size>\d+)\b",
        _world,
        anchors=by_hand("processes and totals are on many lines", *(f"Process {n}, total" for n in range(16))),
    ),
    signature(r"\bNumber of replicas(?: in sync)?: 1$", _one),
    signature(r"(?:^|[:,] )1 replicas?(?: in sync)?(?:,|$)", _one),
    signature(r"\bnum_replicas_in_sync(?:\)|'|\")? ?[=:,]? ?1$", _one),
    signature(r"\bdist(?:ributed)?(?:\.get)?_world_size(?:\(\))?['\"]? ?[=:] ?(?P<size>1)$", _world),
    # What the launcher was asked for
    signature(r"TF_CONFIG[^\n]{0,60}?\{[^\n]{0,40}?['\"]cluster['\"]", _described),
    signature(
        r"(?:^|[$#>;& ])(?P<by>mpirun|mpiexec(?:\.hydra)?|horovodrun|orterun|jsrun|aprun)\b[^\n]{0,400}? (?:-np|--np|-n) ?(?P<count>\d{1,5})\b",
        _started,
    ),
    signature(r"(?:^|[$#>;& ])(?P<by>srun)\b[^\n]{0,300}? (?:-n ?|--ntasks[= ])(?P<count>\d{1,5})\b", _started),
    signature(
        r"^#SBATCH (?:-n ?|--ntasks[= ])(?P<count>\d{1,5})\b",
        lambda match: ProcessesStarted(count=int(match["count"]), by="Slurm"),
    ),
    # submitting job x resources: tpu=v6e-32 replicas=1
    signature(
        r"\b(?:[Ss]ubmitt(?:ing|ed)|[Ll]aunch(?:ing|ed)|[Ss]chedul(?:ing|ed)) (?:the |a |this )?(?:job|gang|workload|[Jj]ob[Ss]et)\b"
        r"[^\n]{0,160}?\b(?:replicas|num_tasks|n_?tasks|num_hosts)['\"]?[=:] ?(?P<count>\d{1,5})\b",
        lambda match: ProcessesStarted(count=int(match["count"]), by="the scheduler"),
        anchors=by_hand(
            "words for a start are on many lines",
            *(f"{what}{sign}" for what in ("replicas", "tasks", "hosts") for sign in ("=", ":", '"', "'")),
        ),
    ),
    signature(r"MPI startup\(\): (?P<last>(?P<count>[1-9]\d{0,4})) +\d+ +\S+", _started),
    signature(rf"\bMPI(?:\.COMM_WORLD\.Get_size\(\)|[ _](?:world )?size){_IS}(?P<count>\d{{1,5}})\b", _started),
)
