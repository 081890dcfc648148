# SPDX-License-Identifier: Apache-2.0
"""JAX and the plugin that drives its devices: packages of different versions that meet in one process."""

from __future__ import annotations

from keepstep.core.facts.environment import CudaMismatch
from keepstep.parse.scan.signature import signature

_APART = "the plugin for the device and jaxlib are of different versions"

SIGNATURES = (
    signature(
        r"Error: register_custom_(?:call_(?:target|handler)|type_id_handler|type)\(\): incompatible function arguments",
        CudaMismatch,
        what=_APART,
    ),
    signature(
        r"AttributeError: module 'jaxlib(?:\.\w+){1,3}' has no attribute '\w{1,60}'",
        CudaMismatch,
        what="jax and jaxlib are of different versions",
    ),
    signature(
        r"ImportError: cannot import name '\w{1,60}' from '(?:jaxlib(?:\.\w+){0,3}|jax\._src\.lib)'",
        CudaMismatch,
        what="jax and jaxlib are of different versions",
    ),
    # said by a logger; JAX goes on with what is left, mostly the CPU
    signature(
        r"Jax plugin configuration error: (?:Exception when calling \S{1,60}\.initialize|Plugin module \S{1,60} (?:could not be loaded"
        r"|does not have an `?initialize))",
        CudaMismatch,
        what=_APART,
        fatal=False,
    ),
    signature(
        r"JAX plugin \S{1,60} version \S{1,30} is installed, but it is not compatible with the installed jaxlib version",
        CudaMismatch,
        what=_APART,
        fatal=False,
    ),
)
