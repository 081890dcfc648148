# SPDX-License-Identifier: Apache-2.0
"""The nodes of a run and who is on them: what launchers, their command lines and scripts print."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.rank_places import MemberPlaced, NodeSeen
from keepstep.parse.scan.signature import by_hand, signature

_IS = r"['\"]?(?: ?[:=] ?| {1,20}:? {0,4})['\"]?"
_NUMBER = r"(\d{1,5})(?![\d:.\w])"
_INDEX = lazy_pattern(rf"(?i)(?<![a-z])(?:node|machine|group)[-_]rank{_IS}{_NUMBER}|\bSLURM_NODEID={_NUMBER}")
_COUNT = lazy_pattern(
    rf"(?i)(?<![a-z])(?:nnodes|num[-_](?:nodes|machines)|max_nodes|group_world_size){_IS}{_NUMBER}"
    rf"|\bSLURM_(?:JOB_NUM_NODES|NNODES)={_NUMBER}"
)
_PER_NODE = lazy_pattern(
    rf"(?i)(?<![a-z])(?:n(?:um_)?proc(?:esse)?s?[-_]per[-_](?:node|host)|ntasks[-_]per[-_]node|num_local_procs"
    rf"|(?<!\w)LOCAL_WORLD_SIZE){_IS}{_NUMBER}"
)
_DEVICES = lazy_pattern(rf"(?i)(?<![a-z])(?:n|num[-_])?gpus[-_]per[-_]node{_IS}{_NUMBER}")
_PROCESSES = lazy_pattern(rf"(?i)--num[-_]processes{_IS}{_NUMBER}")
_LESSER = lazy_pattern(r"(?i)min_nodes|error|must|expected|mismatch|\?")
"""Of a line that only speaks of such numbers."""


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(next(each for each in match.groups() if each is not None)) if match else None


def _node(match: re.Match[str]) -> Fact | None:
    """All that a line says about nodes."""
    text = match.string
    if _LESSER.search(text):
        return None
    count, per_node, all_of_them = _first(_COUNT, text), _first(_PER_NODE, text), _first(_PROCESSES, text)
    if per_node is None and all_of_them and count and all_of_them % count == 0:  # accelerate launch gives the total
        per_node = all_of_them // count
    said = NodeSeen(index=_first(_INDEX, text), count=count, per_node=per_node, devices=_first(_DEVICES, text))
    return said if said != NodeSeen() else None


def _globals(match: re.Match[str]) -> Fact | None:
    """The ranks that torchrun's agent starts."""
    ranks = [int(n) for n in re.findall(r"\d+", match["ranks"])]
    if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
        return None
    return NodeSeen(first=ranks[0], per_node=len(ranks))


def _mapping(match: re.Match[str]) -> Fact | None:
    """DeepSpeed's launcher: each host with its ranks, or with its devices."""
    try:
        hosts = ast.literal_eval(match["hosts"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    lists = list(hosts.values())
    if not all(isinstance(each, list) and each and all(isinstance(n, int) for n in each) for each in lists):
        return None
    counted = [sum(len(each) for each in lists[:n]) for n in range(len(lists))]
    if match["of_ranks"] and [each[0] for each in lists] != counted:
        return None
    return NodeSeen(hosts=tuple(map(str, hosts)), firsts=tuple(counted), count=len(hosts))


MOST_HOSTS = 4096


def expanded(listed: str) -> tuple[str, ...]:
    """The hosts of Slurm's short form: ``gpu-[01-03,07],cpu1``. Empty if it is not one, or names very many."""
    found: list[str] = []
    for each in re.findall(r"[^,\[\]]+(?:\[[\d,\-]+\][^,\[\]]*)?", listed):
        parts = re.fullmatch(r"([^\[\]]*)\[([\d,\-]+)\]([^\[\]]*)", each)
        if parts is None:
            found.append(each)
            continue
        for some in parts[2].split(","):
            low, _, high = some.partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()) or int(high or low) - int(low) > MOST_HOSTS:
                return ()
            found += [f"{parts[1]}{n:0{len(low)}d}{parts[3]}" for n in range(int(low), int(high or low) + 1)]
    return tuple(found) if len(found) <= MOST_HOSTS else ()


def _nodelist(match: re.Match[str]) -> Fact | None:
    hosts = expanded(match["list"])
    return NodeSeen(hosts=hosts, count=len(hosts)) if hosts else None


def _hosts(match: re.Match[str]) -> Fact | None:
    hosts = tuple(re.findall(r"[\w.\-]+", match["list"]))
    if len(hosts) < 2 or len(set(hosts)) < len(hosts) or not all(_is_host(each) for each in hosts):
        return None
    return NodeSeen(hosts=hosts)


def _is_host(name: str) -> bool:
    return len(name) < 256 and (re.fullmatch(r"(?=[\w.\-]*\d)[A-Za-z][\w.\-]*|\d+\.\d+\.\d+\.\d+", name) is not None)


def _placed(match: re.Match[str]) -> Fact | None:
    number, pid = int(match["rank"]), int(match["pid"])
    return MemberPlaced(local=number, pid=pid) if match["local"] else MemberPlaced(rank=number, pid=pid)


def _with_digit(*texts: str) -> Iterable[str]:
    return (text.format(digit) for text in texts for digit in range(10))


SIGNATURES = (
    signature(r"(?i)(?<![a-z])(?:node|machine|group)[-_]rank['\"]?[ :=]{1,24}['\"]?\d", _node),
    signature(r"(?i)(?<![a-z])(?:nnodes|num[-_]machines|max_nodes|group_world_size)['\"]?[ :=]{1,24}['\"]?\d", _node),
    signature(r"(?i)[-_]per[-_](?:node|host)['\"]?[ :=]{1,24}['\"]?\d", _node),
    signature(r"\bSLURM_(?:NODEID|JOB_NUM_NODES|NNODES|NTASKS_PER_NODE)=\d", _node),
    signature(r"(?<!\w)(?:LOCAL_WORLD_SIZE|num_local_procs)[ :=]{1,3}\d", _node),
    # torchrun's agent, on how the rendezvous numbered its workers
    signature(r"^\s*(?:[IWE]\d{4} [^\n]{0,120}\] {1,8})?global_ranks=\[(?P<ranks>\d[\d, ]+)\]", _globals),
    signature(
        r"(?:(?P<of_ranks>global_rank_mapping=defaultdict\(<class 'list'>, )|WORLD INFO DICT: )(?P<hosts>\{[^{}\n]{1,60000}\})",
        _mapping,
    ),
    signature(r"\bSLURM_(?:JOB_|STEP_)?NODELIST=['\"]?(?P<list>[\w.\-,\[\]]{2,4000})", _nodelist),
    signature(
        r"(?i)^\W{0,3}(?:(?:all|the|job) )?(?:hosts|hostnames|nodes|node_?list|nodes_array) ?[:=] ?(?P<list>[\w.\-, '\"\[\]()]{3,4000})$",
        _hosts,
        anchors=by_hand(
            "hosts and nodes are on many lines",
            *(
                f"{what}{by}"
                for what in ("hosts", "hostnames", "nodes", "nodelist", "node_list", "nodes_array")
                for by in (":", "=", " :", " =")
            ),
        ),
    ),
    # scripts and launchers of one's own: started rank 3 (pid 4246), rank=3 pid=4246, pid 4246 is rank 3
    signature(
        r"(?i)\b(?P<local>local[ _-]?)?(?<!node[ _-])(?<!group[ _-])rank[ :=#]{1,3}(?P<rank>\d{1,5})(?:[,:;]| as| has| with| runs as)? "
        r"[\[(]?(?:process |its )?pid(?: is)?[ :=]{1,3}(?P<pid>\d{2,9})\b",
        _placed,
        anchors=by_hand(
            "ranks and processes are on many lines",
            *_with_digit("{} pid ", "{} pid=", "{} pid:", "{}, pid", "{}: pid", "{} (pid", "{} as pid", "{} has pid"),
        ),
    ),
    signature(
        r"(?i)\bpid[ :=]{1,3}(?P<pid>\d{2,9})[,;)]? (?:is |as |for |-> |[\[(])(?:global )?(?P<local>local[ _-]?)?(?<!node[ _-])rank[ :=#]{1,3}"
        r"(?P<rank>\d{1,5})\b",
        _placed,
        anchors=by_hand(
            "ranks and processes are on many lines",
            *_with_digit("{} is rank", "{} as rank", "{} for rank", "{} (rank", "{} -> rank", "{} (local"),
        ),
    ),
)
