# SPDX-License-Identifier: Apache-2.0
"""The software here: distributions, Python, libc, kernel, GPU driver, CPU. Nothing is imported to find out."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.launchers import JAX, TF_CONFIG
from keepstep.base.lazy_pattern import lazy_pattern

FRAMEWORKS = tuple("tensorflow torch jax jaxlib keras tf_keras horovod deepspeed ray libtpu torch_xla".split())
INSTRUCTION_SETS = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")
VARIABLES = lazy_pattern(
    r"^(?:LD_LIBRARY_PATH|LD_PRELOAD|XLA_FLAGS|XLA_\w+|NCCL_\w+|TF_\w+|JAX_\w+|TORCH_\w+|CUDA_(?!VISIBLE_DEVICES)\w+|"
    r"GLOO_\w+|UCX_\w+|OMP_NUM_THREADS|PYTHONPATH|PYTHONHASHSEED|LIBTPU_\w+|HOROVOD_(?!RANK|LOCAL|CROSS|SIZE|HOSTNAME)\w+)$"
)
DIFFER_BY_NATURE = (*TF_CONFIG.of_one_rank, *JAX.of_one_rank, "NCCL_COMM_ID", "JAX_COORDINATOR_BIND_ADDRESS")
ONLY_TALK = lazy_pattern(r"DEBUG|LOG|VERBOSE|PROFILE|DUMP")
"""Variables with such names change what is printed, not what is done."""
LARGEST_SCRIPT = 16 << 20


def packages() -> dict[str, str]:
    """Every distribution that this Python would import, and its version."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # a broken distribution is not our problem
            name = re.sub(r"[-_.]+", "-", (distribution.metadata["Name"] or "").lower())
            if name and name not in found:
                found[name] = distribution.version or "?"
    return found


def places() -> dict[str, str]:
    """Where each framework would be imported from."""
    found = {}
    for name in FRAMEWORKS:
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin:
                found[name] = str(Path(spec.origin).parent)
    return found


def system() -> dict[str, str]:
    """What Python runs on."""
    found = {
        "Python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "CPU": _cpu_model(),
    }
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        if match := re.search(r"Module\s+(\d[\d.]+)", text) or re.search(r"x86_64\s+(\d[\d.]+)", text):
            found["NVIDIA driver"] = match[1]
    return found


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        if match := re.search(r"^model name[ \t]{0,20}:[ \t]{0,20}(.+)$", Path("/proc/cpuinfo").read_text(), re.M):
            return match[1].strip()
    return platform.processor() or "unknown"


def cpu_flags() -> tuple[str, ...]:
    """This CPU's instruction sets, of those that frameworks are built for."""
    with contextlib.suppress(OSError):
        if match := re.search(
            r"^(?:flags|Features)[ \t]{0,20}:[ \t]{0,20}(.+)$", Path("/proc/cpuinfo").read_text(), re.M
        ):
            return tuple(name for name in INSTRUCTION_SETS if name in match[1].split())
    return ()


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what is loaded, compiled or sent, and should be equal everywhere."""
    chosen = [
        name for name in env if VARIABLES.match(name) and name not in DIFFER_BY_NATURE and not ONLY_TALK.search(name)
    ]
    return {name: env[name][:500] for name in chosen}


def digest(path: Path) -> str | None:
    """A hash of a file's content; None if it cannot be read."""
    with contextlib.suppress(OSError):
        if path.stat().st_size <= LARGEST_SCRIPT:
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return None
