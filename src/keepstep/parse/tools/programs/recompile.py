# SPDX-License-Identifier: Apache-2.0
"""Functions traced or compiled again and again: tf.function, torch.compile, jax.jit, torch_xla."""

from __future__ import annotations

from keepstep.model.facts.training import Recompiling
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # TensorFlow's own saver makes a new function for each checkpoint
    signature(
        r"(?P<count>\d+) out of the last \d+ calls to <(?!function MultiDeviceSaver\.)(?:bound method |function )?(?P<function>[\w.<>]+)[^\n]{0,300}triggered tf\.function retracing",
        Recompiling,
    ),
    signature(
        r"torch\._dynamo hit config\.(?:accumulated_)?(?:recompile_limit|cache_size_limit) \((?P<count>\d+)\)",
        Recompiling,
    ),
    signature(r"(?:CacheLimitExceeded|RecompileLimitExceeded|FailOnRecompileLimitHit)", Recompiling),
    signature(r"Recompiling function (?P<function>\S+) in ", Recompiling),
    # jax_explain_cache_misses; the first call at each place is a miss too, so the rule counts
    signature(r"TRACING CACHE MISS at (?P<function>[^\s()]{1,300})", Recompiling),
    # jax_log_compiles; the first compilation of each function is normal, so the rule counts
    signature(r"Finished XLA compilation of (?P<function>\S+) in (?P<seconds>[\d.]+) sec", Recompiling),
    signature(
        r"Compiling (?:jit\()?(?P<function>[\w.<>]+)\)?(?: \(\d+\))? (?P<reason>(?:for )?(?:with global shapes and types|args) ?[(\[])",
        Recompiling,
    ),
    signature(r"Metric: CompileTime TotalSamples: (?P<count>\d+)", Recompiling),
)
