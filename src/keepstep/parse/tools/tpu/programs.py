# SPDX-License-Identifier: Apache-2.0
"""What XLA and the TPU runtime say about a program: the table of its memory, what was fed to it, how it was registered.

XLA prints the table of a program's memory (``Total hbm usage >= ...``) only where the program did not fit; logs that
were cut often hold the table without the sentence before it, which is in ``tpu/runtime``.
"""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.environment import InternalFault
from keepstep.model.facts.resource import AllocationAbsurd
from keepstep.parse.scan.signature import signature

_WORLD = r"(?:world_size\b|process_count\(\)|host_count\(\)|device_count\(\)|len\(jax\.(?:local_)?devices\(\)\))"
MORE_THAN_ANY_HOST = 1 << 44
"""Bytes. A smaller request may have been real."""

SIGNATURES = (
    # what a release of a runtime does to itself
    signature(
        r"TPU platform already registered for platform (?P<what>[^\n]{0,80})",
        lambda m: InternalFault(what=f"libtpu registered its platform twice ({m['what'].strip()})"),
    ),
    signature(
        r"Check failed: (?P<what>[\w:<>]{0,80}\bRegister\w{0,40})\([^\n]{0,500}(?:already (?:registered|exists)|ALREADY_EXISTS)",
        lambda m: InternalFault(what=f"{m['what']} was called twice for the same"),
    ),
    signature(
        r"tcmalloc: large alloc (?P<requested>\d{12,20}) bytes == \(nil\)",
        lambda m: (
            AllocationAbsurd(requested=int(m["requested"])) if int(m["requested"]) >= MORE_THAN_ANY_HOST else None
        ),
    ),
    # an assertion of the number of processes or devices, by the line that a traceback shows above it
    signature(
        rf"\bassert (?P<what>(?=[^\n#%]{{0,320}}\n)(?=[^\n#%]{{0,160}}?[=<>]=)(?=[^\n]{{0,200}}{_WORLD})"
        r"(?![^\n]{0,200}(?:batch|loss|shape|grad|\.size\())[^\n]{3,200})\n *(?:[\^~][\^~ ]{0,200}\n *)?AssertionError",
        lambda m: WorldSizeConflict(what=f"what the code asserts ({m['what'].strip()[:80]})"),
    ),
)
