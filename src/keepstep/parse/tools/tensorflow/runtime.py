# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's runtime between processes: servers, sessions, placements, collectives (0.12 to 2.21)."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import ClusterSpecInvalid, DeviceShared, WorldSeen, WorldSizeConflict
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination, VersionConflict
from keepstep.model.facts.network import AddressMap, ConnectFailed, PeerAwaited, PeerLost, Why
from keepstep.model.facts.platform import MemberRestarted, ParameterServerLost
from keepstep.model.facts.process import TaskNamed
from keepstep.model.facts.sync import CollectiveMismatch
from keepstep.parse.scan.signature import signature

_TASK = r"/job:(?:\w+)(?:/replica:\d+)?/task:\d+"


def _task(name: str | None) -> tuple[str | None, int | None]:
    """The task's name, and its rank where the job's indices are ranks (no chief, no ps)."""
    match = re.search(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", name or "")
    if match is None:
        return None, None
    known = match[1] in ("worker", "jax_worker", "tpu_worker", "localhost")
    return match[0], int(match[2]) if known else None


def _addresses(match: re.Match[str]) -> Fact:
    found = re.findall(r"(?<!\d)(\d{1,9}) -> ([\w.:\[\]%\-]+)", match["map"])
    dense = [int(number) for number, _ in found] == list(range(len(found)))
    return AddressMap(job=match["job"], addresses=tuple(address for _, address in found), dense=dense)


def _awaited(match: re.Match[str]) -> Fact:
    peer, rank = _task(match["peer"])
    return PeerAwaited(peer=peer, peer_rank=rank)


def _restarted(match: re.Match[str]) -> Fact:
    member, rank = _task(match.groupdict().get("member"))
    return MemberRestarted(member=member, rank=rank)


def _down(match: re.Match[str]) -> Fact:
    peer, rank = _task(match["peer"])
    return PeerLost(how="health check failed", peer=peer, peer_rank=rank)


def _remote(match: re.Match[str]) -> Fact | None:
    """``Additional GRPC error information from remote target T`` with an unavailable peer."""
    peer, rank = _task(match["peer"])
    how = match["how"].strip().rstrip(".")
    if "job:ps" in match["peer"]:
        return ParameterServerLost(member=peer, how=how)
    return PeerLost(how=how, peer=peer, peer_rank=rank, final="agent shutdown anyway" not in match.string)


def _dialled(match: re.Match[str]) -> Fact:
    """The verbs transport tries a peer five times, then goes on without it."""
    peer, rank = _task(match["peer"])
    return ConnectFailed(why=Why.FAILED, peer=peer, peer_rank=rank, final=match["tried"] == match["of"])


def _from_ps(match: re.Match[str]) -> Fact:
    return ParameterServerLost(member=match["member"], how=match["how"])


def _no_device(match: re.Match[str]) -> Fact | None:
    wanted = match["wanted"]
    if "no supported kernel for" in match.string:
        return UnsupportedCombination(what=f"an operation that has no kernel for {wanted}")
    job = re.search(r"/job:(?!localhost/\S*GPU:[1-9])(\w+)", wanted)
    there = match["there"] or ""
    if job is None and not there and wanted.startswith("/job:"):
        return DeviceShared(device=wanted.rpartition(":device:")[2] or wanted.rpartition("/")[2])
    if job is None:
        gpu = re.search(r"(?i)\b(?:device:)?GPU:(\d+)", wanted)
        if gpu and re.search(r"(?i)\bGPU:\d", there) and not re.search(rf"(?i)\bGPU:{gpu[1]}\b", there):
            return DeviceShared(device=gpu[0])
        return (
            CudaMismatch(what="TensorFlow sees no GPU in this process")
            if gpu and (re.search(r"(?i)\bCPU:\d", there) or gpu[1] == "0")
            else None
        )
    if there and f"/job:{job[1]}/" in there:
        task = re.search(r"/task:(\d+)", wanted)
        if task is None or re.search(rf"/job:{job[1]}(?:/replica:\d+)?/task:{task[1]}/", there):
            return None
    return ClusterSpecInvalid(detail=f"no device of {wanted} is known; known: {there.strip()[:120] or 'not said'}")


def _workers(match: re.Match[str]) -> Fact:
    groups = match.groupdict()
    index = int(groups["index"]) if groups.get("index") else None
    return WorldSeen(size=int(groups["size"]), index=index, role=groups.get("role"), rank=index)


def _joined(match: re.Match[str]) -> Fact:
    """Tasks of a cluster that count its members differently; in one process, two strategies in each other's way."""
    if match["what"] == "size" and match["job"] not in (None, "localhost") and match["expected"]:
        return WorldSizeConflict(seen=match["seen"] or None, expected=match["expected"], what="the devices of a group")
    return CollectiveMismatch(what=match["what"])


SIGNATURES = (
    signature(r"Initialize GrpcChannelCache for job (?P<job>\w+) -> \{(?P<map>[^}]*)\}", _addresses),
    signature(rf"CreateSession still waiting for response from worker: (?P<peer>{_TASK})", _awaited),
    signature(rf"(?i)cluster check alive failed,? (?P<peer>{_TASK}) is down", _down),
    # Placement
    signature(
        r"Could not satisfy explicit device specification '(?P<wanted>[^']*)'[^\n]{0,300}?(?:available devices:? (?P<there>[^\n]{0,2000})|$)",
        _no_device,
    ),
    signature(
        r"explicitly assigned to (?P<wanted>/(?:job|device|gpu|GPU|cpu|task)\S+) but available devices are \[(?P<there>[^\]\n]{0,2000})",
        _no_device,
    ),
    signature(r"(?P<wanted>/job:\S{1,120}|\bGPU:\d+) unknown device\.(?P<there>)", _no_device),
    signature(
        r"No OpKernel was registered to support Op '(?!(?:Configure|Initialize|WaitFor|Set|Shutdown)\w*TPU)(?P<op>\w+)'",
        lambda m: UnsupportedCombination(what=f"operation {m['op']} has no kernel for these devices in this build"),
    ),
    signature(
        r"Op type not registered '(?P<op>Nccl\w{1,40})' in binary",
        lambda m: UnsupportedCombination(
            what=f"this build of TensorFlow has no NCCL, and operation {m['op']} needs it"
        ),
    ),
    signature(
        r"Op type not registered '(?!Nccl)(?P<op>[\w>]+)' in binary running on (?P<there>[\w.\-]+?)\.? ",
        lambda m: VersionConflict(component=f"operation {m['op']}", there=m["there"]),
    ),
    signature(
        r"'(?P<op>\w+)' is neither a type of a primitive operation nor a name of a function registered in binary running on (?P<there>[\w.\-]+?)\.? ",
        lambda m: VersionConflict(component=f"function {m['op']}", there=m["there"]),
    ),
    signature(
        r"\bMember (?P<rank>\d+) has received (?:termination|preemption) (?:notice|signal)",
        lambda m: TaskNamed(rank=int(m["rank"])),
    ),
    # A peer that came back as another process
    signature(rf"Your worker job \(\"(?P<member>{_TASK})\"\) was probably restarted", _restarted),
    signature(
        rf"(?:(?P<member>{_TASK})[^\n]{{0,40}}? )?(?i:incarnation) (?:mismatch|(?:does not|doesn't|did not) match|has changed|changed)",
        _restarted,
    ),
    signature(
        rf"ossibly,? this (?:worker|master) \(\\?\"(?P<member>{_TASK})\\?\"\) (?:has )?just restarted", _restarted
    ),
    signature(
        rf"(?:Device (?P<member>{_TASK})\S* )?current incarnation doesn't match with one in the group", _restarted
    ),
    signature(rf"(?:(?P<member>{_TASK})\S{{0,60}}? ?)?exists in cache with a different incarnation", _restarted),
    # A peer that never was there
    signature(
        rf"Connecting to (?P<peer>{_TASK}): Got [^\n]{{3,200}}?\. Retrying \((?P<tried>\d+)/(?P<of>\d+)\)", _dialled
    ),
    # A peer that went away
    signature(
        rf"Additional GRPC error information from remote target (?P<peer>{_TASK})(?!\d)"
        r"(?:(?!Additional GRPC)[\s\S]){0,3000}?(?:grpc_message\"?:\"?(?P<how>[^\"}\n]{3,120})(?:(?=[\"}\n])|(?<=[^\"}\n]{120}))[^\n]{0,80}?grpc_status\"?:\s?14)",
        _remote,
    ),
    signature(
        r"(?:UNAVAILABLE|Unavailable(?:Error)?|AbortedError|ABORTED)(?=([^\n]{0,300}?(?P<how>Socket closed|[Cc]onnection "
        r"reset by peer|Broken pipe|Connection refused|failed to connect to all addresses|Endpoint read failed|"
        r"Stream removed|\"EOF\"|OS Error)))\1[\s\S]{0,900}?(?P<member>/job:ps(?:/replica:\d+)?/task:\d+)",
        _from_ps,
    ),
    signature(
        r"[Ff]rom (?P<member>/job:ps(?:/replica:\d+)?/task:\d+):\s{1,3}(?P<how>Socket closed|[Cc]onnection reset by peer|Endpoint read failed|"
        r"OS Error|Broken pipe|Stream removed|EOF|Connect Failed)",
        _from_ps,
    ),
    # Collectives
    signature(
        r"(?:/job:(?P<job>\w+)/\S+ )?is joining a group with (?P<what>size|incompatible device type) ?(?P<seen>\d*)[^\n]{0,80}?"
        r"(?:but that group has size (?P<expected>\d+)|$|\()",
        _joined,
    ),
    # File systems and stores
    signature(
        r"File system scheme '?(?P<scheme>\w+)'? not implemented",
        lambda m: UnsupportedCombination(what=f"this build of TensorFlow and the file system {m['scheme']}://"),
    ),
    # an address of the cluster that no resolver accepts: with a user's name, or as in a browser
    signature(
        r"(?:cluster_spec = |GrpcChannelCache for job )[^\n=]{0,1500}?(?P<address>(?<![\w.\-])(?:[\w.\-]{1,40}@|https?://)[\w.\-]{3,80}:\d+)",
        lambda match: ClusterSpecInvalid(detail=f"an address is not HOST:PORT: {match['address']}"),
    ),
    # a server replaces its own port 0 by the one it was given; port 0 of another leads nowhere
    signature(
        r"GrpcChannelCache for job [^\n]{0,4000}?\d -> (?P<address>[\w.\-]{1,80}:(?:0|[1-9]\d{5,9}))(?=[,}])",
        lambda match: ClusterSpecInvalid(detail=f"nothing can be reached at the port of {match['address']}"),
    ),
    # Who is in the world
    signature(
        r"device_filters: \"/job:(?P<role>worker)/(?:replica:\d+/)?task:(?P<index>\d+)",
        lambda m: WorldSeen(index=int(m["index"]), rank=int(m["index"]), role=m["role"]),
    ),
    signature(
        r"(?:MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy) with cluster_spec = [^\n]{0,4000}?"
        r"task_type = u?'(?P<role>\w+)', task_id = (?P<index>\d+), num_workers = (?P<size>\d+)",
        _workers,
    ),
    signature(
        r"(?P<single>Single-worker) (?:MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy)",
        lambda match: WorldSeen(size=1),
    ),
)
