# SPDX-License-Identifier: Apache-2.0
"""COD210: TF_CONFIG names one worker for all processes."""

from __future__ import annotations

import re
from typing import Any

from keepstep.rules.api import Cause, CodeCall, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._cluster import counts_tasks, mixes_localhost, written
from keepstep.rules.code.tensorflow._tensorflow import Distributed, config_given, config_set, distributed

_CONSTANT = "gives every process the same index"
_INDEX = re.compile(r"""["']index["']\s*:\s*(\d+)\b""")
_NAMED_INDEX = re.compile(r"""["']index["']\s*:\s*(\w+)\s*[},]""")
_OTHER_ROLE = re.compile(r"""["']type["']\s*:\s*["'](chief|ps|evaluator|master)["']""")
_OF_NODE = re.compile(r"NODEID|NODE_RANK|GROUP_RANK|hostname", re.I)


def _what_is_wrong(text: str) -> str:
    if mixes_localhost(text):
        return "mixes localhost with other hosts"
    if _OF_NODE.search(text) and re.search(r"localhost:|127\.0\.0\.1:", text):
        return "names localhost for the workers of several nodes"
    is_constant = _INDEX.search(text) is not None and not _OTHER_ROLE.search(text)
    return _CONSTANT if is_constant and counts_tasks(text) else ""


def _given_index(tf: Distributed, place: Evidence[Any], text: str) -> Call | None:
    """The only call of the function that sets it, if it gives a constant index."""
    named = _NAMED_INDEX.search(text)
    function = tf.known.functions.get(place.fact.function)
    callers = tf.known.callers(place.fact.function)
    if named is None or function is None or named[1] not in function.fact.parameters or len(callers) != 1:
        return None
    value = callers[0].fact.argument(named[1], function.fact.parameters.index(named[1]))
    in_loop = any(
        block.kind in ("for", "while", "if", "else") for block in callers[0].fact.within if "__" not in block.text
    )
    return callers[0] if value is not None and (value.literal or "").isdecimal() and not in_loop else None


def _is_changed(tf: Distributed, place: Evidence[Any]) -> bool:
    """Whether the program writes another index into it later, or sets it several times."""
    changed = [
        each
        for each in tf.known.assigned_in_file(place)
        if re.search(r"""\[["'](index|task)["']\]$""", each.fact.target)
    ]
    here = [each for each in config_set(tf) if each.origin.source == place.origin.source]
    return bool(changed) or len(here) > 1


@rule(id="COD210", cause=Cause.CONFIG_CLUSTER_SPEC, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def tf_config_hard_coded(seen: EvidenceSet) -> Findings:
    """The script sets TF_CONFIG for several workers with an index that is a constant.

    ## What it looks like
    ```python
    import json
    import os
    import tensorflow as tf

    hosts = ["10.0.0.1:2222", "10.0.0.2:2222"]
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 0}}
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ```

    ## Why it happens
    Every process that runs the script claims to be the same worker. The first one waits for the others for ever,
    and the others cannot use its address. An address of `localhost` among others is wrong in the same way: each
    host means itself.

    ## How we know
    The value of TF_CONFIG is written in the script: it lists several tasks, and its index is a number that nothing
    changes, or it mixes `localhost` with other hosts.

    ## What to do
    ```python
    import json
    import os
    import tensorflow as tf

    hosts = ["10.0.0.1:2222", "10.0.0.2:2222"]
    index = int(os.environ["SLURM_PROCID"])
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ```

    ## When this is wrong
    When each host has a copy of the script of its own.
    """
    tf = distributed(seen)
    settings = [*((each, each.fact.value) for each in config_set(tf)), *config_given(tf)]
    for each, value in settings:
        text = written(tf, each, value)
        wrong = _what_is_wrong(text)
        place: Evidence[Any] = each
        if not wrong and counts_tasks(text):
            caller = _given_index(tf, each, text)
            wrong, place = (_CONSTANT, caller) if caller is not None else ("", each)
        if wrong and not _is_changed(tf, each):
            yield Found(
                title=f"TF_CONFIG in the script {wrong}",
                because="all processes run this script and get the same TF_CONFIG, so they claim the same place"
                " in the cluster",
                evidence=(place,) if place is each else (place, each),
                fixes=(Fix(do="take the index (or all of TF_CONFIG) from the launcher, by an environment variable"),),
            )
