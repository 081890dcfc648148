# SPDX-License-Identifier: Apache-2.0
"""Network file systems: what Lustre, Ceph and CIFS write into the kernel's log, and locks that a mount does not know.

The clients wait and recover, so these lines do not mean that a run was harmed.
"""

from __future__ import annotations

from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.training import SlowStorage
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(r"LustreError: [^\n]{0,120}?(?P<detail>This client was evicted by \S{1,80})", SlowStorage),
    signature(
        r"Lustre(?:Error)?: [^\n]{0,120}?(?P<detail>Connection to \S{1,80} (?:\(at \S{1,60}\) )?was lost; in progress operations)",
        SlowStorage,
    ),
    signature(
        r"LustreError: [^\n]{0,120}?(?P<detail>operation (?:ost|mds|ldlm|obd)_\w{2,30} to node \S{1,60} failed: rc = -\d+)",
        SlowStorage,
    ),
    signature(r"(?P<detail>Cannot send after transport endpoint shutdown)", SlowStorage),
    signature(r"\bceph: (?:\[[^\]\n]{1,80}\]: )?(?P<detail>mds\d+ (?:hung|caps stale))", SlowStorage),
    signature(r"CIFS: (?:VFS: )?[^\n]{0,80}?(?<!\S)(?P<detail>\S{1,80} has not responded in \d+ seconds)", SlowStorage),
    # TensorStore and ROMIO lock the files that they write
    signature(
        r"(?P<what>Failed to (?:acquire lock on|lock) file)[^\n]{0,400}\[OS error: (?:Function not implemented|Operation not supported|No locks available)",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>File locking failed in ADIOI_(?:GEN_)?Set_lock)", UnsupportedCombination),
    signature(r"nfs: server (?P<detail>\S+) not responding", SlowStorage),
)
