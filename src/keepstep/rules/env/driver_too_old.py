# SPDX-License-Identifier: Apache-2.0
"""ENV106: the GPU driver is too old for the framework's CUDA."""

from __future__ import annotations

from keepstep.base.whole_numbers import whole
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, SoftwareSeen, rule

LOWEST = {"11": (450, 80), "12": (525, 60), "13": (580, 65)}
"""By CUDA generation: the oldest Linux driver with minor-version compatibility."""


def _number(version: str) -> tuple[int, ...]:
    return tuple(number for part in version.split(".") if (number := whole(part)) is not None)


@rule(id="ENV106", cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH, needs=(SoftwareSeen,))
def driver_too_old(seen: EvidenceSet) -> Findings:
    """The GPU driver is too old for the CUDA version that the installed framework ships.

    ## What it looks like
    `CUDA driver version is insufficient for CUDA runtime version`, `no kernel image`, or training that silently
    runs on the CPU.

    ## Why it happens
    The framework was updated and the driver was not.

    ## How we know
    The installed packages name their CUDA generation (nvidia-cuda-runtime-cu12). NVIDIA's compatibility table gives
    the oldest driver for each.

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
                needed = ".".join(map(str, lowest))
                yield Found(
                    title=f"the driver of {each.fact.host} is {driver}, but CUDA {generation} needs at least {needed}",
                    because=f"{name} is installed, which needs a newer driver",
                    evidence=(each,),
                    fixes=(Fix(do="update the driver, or install a build of the framework for an older CUDA"),),
                )
                break
