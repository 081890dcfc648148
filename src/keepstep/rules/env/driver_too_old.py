# SPDX-License-Identifier: Apache-2.0
"""ENV106: the GPU driver is too old for the CUDA that the framework brings."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.software import SoftwareSeen
from keepstep.core.finding import Fix, Found
from keepstep.core.numbers import whole
from keepstep.core.rule import rule

LOWEST = {"11": (450, 80), "12": (525, 60), "13": (580, 65)}
"""By CUDA's generation: the lowest Linux driver with minor-version compatibility."""


def _number(version: str) -> tuple[int, ...]:
    return tuple(number for part in version.split(".") if (number := whole(part)) is not None)


@rule(id="ENV106", cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH, needs=(SoftwareSeen,))
def driver_too_old(seen: EvidenceSet) -> Iterator[Found]:
    """The GPU driver is too old for the CUDA that the installed framework brings.

    ## What it looks like
    `CUDA driver version is insufficient for CUDA runtime version`, `no kernel image`, or training that silently
    runs on the CPU.

    ## Why it happens
    The framework was updated and the driver was not.

    ## How we know
    The distributions name the CUDA generation they bring (nvidia-cuda-runtime-cu12); each has a lowest driver
    by NVIDIA's compatibility table.

    ## What to do
    Update the driver, or install the build of the framework for the older CUDA.

    ## When this is wrong
    NVIDIA's forward-compatibility package is installed.
    """
    for each in seen.all(SoftwareSeen):
        driver = dict(each.fact.system).get("NVIDIA driver")
        if driver is None:
            continue
        for name, _ in each.fact.packages:
            generation = name.rpartition("-cu")[2] if name.startswith(("nvidia-cuda-runtime-cu", "jax-cuda")) else ""
            lowest = LOWEST.get(generation)
            if lowest and _number(driver) < lowest:
                yield Found(
                    title=f"the driver of {each.fact.host} is {driver}, and CUDA {generation} wants at least {'.'.join(map(str, lowest))}",
                    because=f"{name} is installed, which is for a newer driver",
                    evidence=(each,),
                    fixes=(Fix(do="update the driver, or install the framework's build for an older CUDA"),),
                )
                break
