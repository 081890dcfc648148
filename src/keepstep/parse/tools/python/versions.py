# SPDX-License-Identifier: Apache-2.0
"""Versions that components print of themselves, to compare them between ranks and hosts."""

from __future__ import annotations

from keepstep.model.facts.environment import VersionConflict, VersionSeen
from keepstep.parse.scan.signature import by_hand, signature

_V = r"(?P<version>\d+\.\d+(?:\.\w+)*(?:[+\-]\w+(?:\.\w+)*)?)"

SIGNATURES = (
    # said of two that must agree
    signature(
        r"Check whether your GraphDef-interpreting binary is up to date with your GraphDef-generating binary",
        VersionConflict,
        component="TensorFlow",
    ),
    signature(
        r"NodeDef (?:expected inputs '[^'\n]{0,200}' do not match|mentions attr '\w{1,60}' not in Op<|missing attr '\w{1,60}' from Op<)",
        VersionConflict,
        component="TensorFlow",
    ),
    signature(
        r"Mismatched PJRT plugin PJRT API version \((?P<there>[\d.]+)\) and framework PJRT API version \(?(?P<here>[\d.]+)\)",
        VersionConflict,
        component="the PJRT plugin",
    ),
    # said by each
    signature(rf"NCCL version {_V}", VersionSeen, component="NCCL"),
    signature(
        rf"(?:PyTorch|torch)(?:\.__version__| version)? ?[:=] ?['\"]?v?{_V}",
        VersionSeen,
        component="torch",
        anchors=by_hand(
            "every line of a stack names torch", "PyTorch", "torch version", "torch.__version__", "torch: ", "torch="
        ),
    ),
    signature(rf"(?:TensorFlow|tensorflow|TF) [Vv]ersion:? ?v?{_V}", VersionSeen, component="TensorFlow"),
    signature(
        rf"\b(?P<component>jaxlib|jax|JAX)(?:\.__version__| version)?:? ?[:=] ?v?{_V}",
        VersionSeen,
        anchors=by_hand(
            "every line of a stack names jax",
            "jaxlib",
            "jax version",
            "jax: ",
            "jax=",
            "JAX version",
            "jax.__version__",
        ),
    ),
    signature(rf"Horovod v?{_V}:", VersionSeen, component="Horovod"),
    signature(rf"using Keras version:? ?{_V}", VersionSeen, component="Keras"),
    # any package; compared only where an exception mentions it
    signature(
        rf"(?<![\w.])(?P<component>(?!NCCL|requires|[Tt]orch|PyTorch|TF|[Tt]ensor[Ff]low|JAX|jax|jaxlib|Keras|API)[A-Za-z]\w{{1,40}}) version:? v?{_V}",
        VersionSeen,
    ),
)
