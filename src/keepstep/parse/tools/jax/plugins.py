# SPDX-License-Identifier: Apache-2.0
"""JAX and the plugin that drives its devices: packages of different versions that meet in one process."""

from __future__ import annotations

import re

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.model.facts.platform import TpuInitFailed
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.parse.scan.signature import signature

_APART = "the plugin for the device and jaxlib are of different versions"


def _no_handle(match: re.Match[str]) -> Fact:
    if match["built"] and "alloc" not in match["why"].lower():
        return CudaMismatch(what=f"cu{match['library']} could not start: {match['why'].strip()}")
    return DeviceMemoryExhausted(library=match["library"])


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
    # logged; JAX goes on with what is left, usually the CPU
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
    signature(
        r"RuntimeError: Could not initialize backend '(?:cuda|gpu|rocm)'",
        CudaMismatch,
        what="JAX could not start its GPU backend",
    ),
    signature(r"RuntimeError: Could not initialize backend '(?P<what>tpu)'", TpuInitFailed),
    signature(
        r"(?P<what>JAX requires ml_dtypes version \S{1,20} or newer; installed version is \S{1,20})",
        UnsupportedCombination,
    ),
    # when a program runs, memory is short; when one is built, at a library's first use, the library does not fit
    signature(
        r"(?P<built>\bRuntimeError: (?:[\w./]{1,60}:\d+: )?)?operation (?:gpu|cu|hip|roc)(?P<library>solver|blas|sparse|fft|rand)(?:Dn)?Create\(&handle\)"
        r" failed: (?P<why>[^\n]{1,80})",
        _no_handle,
    ),
    signature(r"Backend '(?P<what>cuda|gpu|rocm|tpu)' provides no devices", CudaMismatch),
)
