# SPDX-License-Identifier: Apache-2.0
"""How a dataset is dealt out among workers: the policies that a program sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import CodeAssigned, Evidence
from keepstep.rules.code.tensorflow._tensorflow import Distributed


def policies(tf: Distributed, name: str) -> Iterator[Evidence[CodeAssigned]]:
    """Where an auto-shard policy of that name is set."""
    for each in tf.known.assigned_to("auto_shard_policy"):
        if re.search(rf"AutoShardPolicy\.{name}$", each.fact.value.text):
            yield each
