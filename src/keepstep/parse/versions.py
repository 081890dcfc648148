# SPDX-License-Identifier: Apache-2.0
"""Versions that components print of themselves, to compare them between ranks and hosts."""

from __future__ import annotations

from keepstep.core.facts.environment import VersionSeen
from keepstep.parse.signature import signature

_V = r"(?P<version>\d+\.\d+(?:\.\w+)*(?:[+\-]\w+(?:\.\w+)*)?)"

SIGNATURES = (
    signature(rf"NCCL version {_V}", VersionSeen, component="NCCL"),
    signature(
        rf"(?:PyTorch|torch)(?:\.__version__| version)? ?[:=] ?['\"]?v?{_V}",
        VersionSeen,
        component="torch",
        anchors=("PyTorch", "torch version", "torch.__version__", "torch: ", "torch="),
    ),
    signature(
        rf"(?:TensorFlow|tensorflow|TF) [Vv]ersion:? ?v?{_V}",
        VersionSeen,
        component="TensorFlow",
        anchors=("TensorFlow ", "tensorflow ", "TF version", "TF Version"),
    ),
    signature(
        rf"\b(?P<component>jaxlib|jax|JAX)(?:\.__version__| version)?:? ?[:=] ?v?{_V}",
        VersionSeen,
        anchors=("jaxlib", "jax version", "jax: ", "jax=", "JAX version", "jax.__version__"),
    ),
    signature(rf"Horovod v?{_V}:", VersionSeen, component="Horovod"),
    signature(rf"using Keras version:? ?{_V}", VersionSeen, component="Keras"),
)
