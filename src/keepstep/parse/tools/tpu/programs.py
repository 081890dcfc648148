# SPDX-License-Identifier: Apache-2.0
"""What XLA and the TPU runtime say about a program: the table of its memory, what was fed to it, how it was registered.

XLA prints the table of a program's memory (``Total hbm usage >= ...``) only where the program did not fit; logs that
were cut often hold the table without the sentence before it, which is in ``tpu/runtime``.
"""

from __future__ import annotations

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import InternalFault, UnsupportedCombination
from keepstep.model.facts.resource import AllocationAbsurd, DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

_SIZE = r"[\d.]+[KMGT]?B?"
_SHAPE = r"\[[^\]\n]{0,80}\]"
_WORLD = r"(?:world_size\b|process_count\(\)|host_count\(\)|device_count\(\)|len\(jax\.(?:local_)?devices\(\)\))"
MORE_THAN_ANY_HOST = 1 << 44
"""Bytes. A smaller request may have been real."""

SIGNATURES = (
    signature(rf"Total hbm usage >= (?P<requested>{_SIZE})(?=[:\s])", DeviceMemoryExhausted, kind="tpu"),
    signature(rf"Program hbm requirement (?P<requested>{_SIZE})(?=[:\s])", DeviceMemoryExhausted, kind="tpu"),
    signature(r"Largest program allocations in hbm:", DeviceMemoryExhausted, kind="tpu"),
    # what is fed (TensorFlow's infeed_ops.cc)
    signature(
        rf"Infeed shape mismatch(?: for tuple element \d+)?; expected (?P<left>{_SHAPE}), got (?P<right>{_SHAPE})",
        ShapeMismatch,
        op="the infeed of the TPU",
    ),
    signature(r"Infeed dtype mismatch(?: for tuple element \d+|\.)", DtypeMismatch),
    # what TensorFlow does not compile for XLA and TPUs (xla.py, tpu_replication.py)
    signature(
        r"(?P<what>(?:XLA compiled|TPU) computations cannot be nested\b|Cannot nest (?:outside_compilation clusters|gradient colocation operations)"
        r"|[Nn]on-resource Variables are not supported inside (?:XLA|TPU) computations)",
        UnsupportedCombination,
    ),
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
        r"gpuDeviceGetAttribute\([^\n]{0,160}failed: CUDA_ERROR_NOT_INITIALIZED",
        InternalFault,
        what="jaxlib asked the driver for a device before it had initialised it",
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
