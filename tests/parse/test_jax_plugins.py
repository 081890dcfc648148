# SPDX-License-Identifier: Apache-2.0
"""JAX and plugins of other versions."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch
from keepstep.parse.tools.jax import plugins as table

WORDINGS = [
    (
        "TypeError: register_custom_call_target(): incompatible function arguments. The following argument types are supported:",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "AttributeError: module 'jaxlib.xla_extension' has no attribute 'pytree'",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "ImportError: cannot import name 'PjRtLayout' from 'jaxlib.xla_extension' (/opt/venv/lib/python3.10/site-packages/jaxlib/x.so)",
        CudaMismatch,
        {"fatal": True},
    ),
    (
        "Jax plugin configuration error: Exception when calling jax_plugins.xla_cuda12.initialize()",
        CudaMismatch,
        {"fatal": False},
    ),
    (
        "RuntimeWarning: JAX plugin jax_cuda12_plugin version 0.9.2 is installed, but it is not compatible with the installed "
        "jaxlib version 0.9.0.1, so it will not be used.",
        CudaMismatch,
        {"fatal": False},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NEAR = [
    "TypeError: add(): incompatible function arguments. The following argument types are supported:",
    "AttributeError: module 'jax' has no attribute 'tree_map'",
    "ImportError: cannot import name 'maps' from 'jax.experimental' (/opt/venv/jax/experimental/__init__.py)",
]


@pytest.mark.parametrize("text", NEAR)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
