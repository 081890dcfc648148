# SPDX-License-Identifier: Apache-2.0
"""Intel accelerators: oneCCL, Level Zero and the unified runtime of XPU devices, and Gaudi's Synapse."""

from __future__ import annotations

from keepstep.model.facts.config import ClusterSpecInvalid
from keepstep.model.facts.environment import LibraryMissing, UnsupportedCombination
from keepstep.model.facts.network import RdmaTrouble, RendezvousTimeout
from keepstep.model.facts.resource import LimitReached
from keepstep.parse.scan.signature import signature

_ONECCL = (
    signature(
        r"atl_ofi\w*\.cpp:\d+ \w+: (?P<what>can't find suitable provider|can ?not open network providers|can't init provider \S+)",
        lambda m: RdmaTrouble(what=f"oneCCL: {m['what']}"),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}(?:KVS get error: timeout|connection timeout|kvs_get_value[^\n]{0,40}timeout)",
        lambda m: RendezvousTimeout(where="oneCCL's key-value store"),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}condition can_use_internal_kvs\(\) failed",
        lambda m: UnsupportedCombination(what="oneCCL over MPI in processes that MPI did not start"),
    ),
    signature(
        r"\|CCL_ERROR\| [^\n]{0,80}(?P<what>fi_cq_readerr: err: [^\n]{1,60}|unexpected av_insert results[^\n]{0,40})",
        lambda m: RdmaTrouble(what=f"oneCCL: {m['what']}"),
    ),
    signature(
        r"could not open the library: (?P<name>lib\S{2,80}\.so\S{0,20})|could not (?:load|initialize) (?:the )?(?:library|api)[^\n]{0,20}: (?P<other>lib\S{2,80})",
        lambda m: LibraryMissing(name=m["name"] or m["other"]),
    ),
    signature(
        r"error while creating (?:worker|\w+) thread #\d+ pthread_create returns (?P<code>\d+)",
        lambda m: (
            ClusterSpecInvalid(
                detail="oneCCL's worker threads were given cores that this process may not use (CCL_WORKER_AFFINITY)"
            )
            if m["code"] == "22"
            else LimitReached(limit="threads")
        ),
    ),
)


SIGNATURES = _ONECCL
