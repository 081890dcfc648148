# SPDX-License-Identifier: Apache-2.0
"""ENV007: a rank trained on the CPU, although the job asked for a GPU."""

from __future__ import annotations

from keepstep.model.facts import OnCpu
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, ranks_of, rule, shorten
from keepstep.rules.asking.accelerator_use import unwillingly_on_cpu
from keepstep.rules.asking.process_endings import who


@rule(
    id="ENV007",
    cause=Cause.ENV_FRAMEWORK_CUDA_MISMATCH,
    needs=(OnCpu,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def fell_back_to_cpu(seen: EvidenceSet) -> Findings:
    """A rank trained on the CPU, although the job asked for a GPU, the machine has one, or other ranks use theirs.

    ## What it looks like
    Nothing fails; training is many times slower. Near the start: `Could not find cuda drivers on your machine, GPU will
    not be used`, `Falling back to cpu`, `GradScaler is enabled, but CUDA is not available`.

    ## Why it happens
    A build of the framework without CUDA, a container started without its GPUs, a driver that does not load, or one
    host that was set up differently.

    ## How we know
    The framework says that it uses no GPU. We report it only where something shows that one was meant: a request to
    the scheduler, device ids, NCCL, `nvidia-smi` in the log, GPUs of other ranks, or the framework's own message.

    ## What to do
    Ask the framework for its devices on that host, in the same environment or container.

    ## When this is wrong
    If another part of the job uses the GPUs and this program was meant to run on the CPU.
    """
    found, shown = unwillingly_on_cpu(seen, "GPU")
    if not found:
        return
    yield Found(
        title=f"{who(found)} trained on the CPU: {found[0].fact.why}",
        because=f"the job was meant to use GPUs: {shorten(shown[0].quote.strip(), 60)}"
        if shown
        else "the framework reports a GPU on this machine and does not use it",
        evidence=(*found[:6], *shown[:2]),
        ranks=ranks_of(found),
        fixes=(
            Fix(do="check what the driver shows there, in the same container", command="nvidia-smi -L"),
            Fix(
                do="ask PyTorch for its devices",
                command="python -c 'import torch as t; print(t.version.cuda, t.cuda.device_count())'",
            ),
            Fix(
                do="ask TensorFlow for its devices",
                command="python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())'",
            ),
            Fix(do="ask JAX for its devices", command="python -c 'import jax; print(jax.devices())'"),
            Fix(
                do="install the framework with CUDA on that host",
                command='pip install "tensorflow[and-cuda]"   # or "jax[cuda12]", or torch from a CUDA index',
            ),
        ),
    )
