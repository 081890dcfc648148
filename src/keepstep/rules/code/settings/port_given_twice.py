# SPDX-License-Identifier: Apache-2.0
"""COD416: two trainings of one host get the same port."""

from __future__ import annotations

from keepstep.model.facts import LaunchScript
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code.settings._scripts import LOCAL, Started, started

_NODES = ("nnodes", "num_nodes", "num_machines")
_PORT = ("master_port", "main_process_port", "rdzv_endpoint")


@rule(id="COD416", cause=Cause.NETWORK_PORT_IN_USE, needs=(LaunchScript,), confidence=Confidence.SUPPORTED)
def port_given_twice(seen: EvidenceSet) -> Findings:
    """A script starts two trainings beside each other, and both are to meet at the same port.

    ## What it looks like
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 --master_port=29500 train.py --seed 1 &
    CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 --master_port=29500 train.py --seed 2 &
    wait
    ```

    ## Why it happens
    The line was copied.

    ## How we know
    The first of them goes to the background, both name the same port, and neither has a node's rank or several
    nodes.

    ## What to do
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 --master_port=29500 train.py --seed 1 &
    CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 --master_port=29501 train.py --seed 2 &
    wait
    ```

    ## When this is wrong
    When the first has ended before the second starts, or the port is not the host's own (containers).
    """
    before: dict[tuple[str, tuple[int, ...], str], Started] = {}
    for each in started(seen, "torchrun", "accelerate", "deepspeed"):
        port = _port(each)
        if port is None:
            continue
        key = (each.script.origin.source, each.command.block, port)
        first = before.get(key)
        if first is not None and not any(
            first.command.line < line < each.command.line for line in each.script.fact.waits
        ):
            yield Found(
                title=f"port {port} is given to a training that runs already",
                because=f"the one of line {first.command.line} runs in the background and has the port",
                evidence=(each.place, first.place),
                fixes=(Fix(do="give each of them a port of its own, or use `torchrun --standalone`"),),
            )
        elif each.command.background:
            before[key] = each


def _port(each: Started) -> str | None:
    """The port of this host that it takes, if nothing says that several such commands belong together."""
    if each.command.under or each.has("node_rank", "machine_rank", "standalone", "hostfile", "H"):
        return None
    if each.has(*_NODES) and each.number(*_NODES) != 1:
        return None
    text = each.text(*_PORT) or ""
    host, _, port = text.rpartition(":")
    return port if port.isdecimal() and port != "0" and (not host or LOCAL.fullmatch(host)) else None
