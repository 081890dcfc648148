# SPDX-License-Identifier: Apache-2.0
"""Healthy JAX runs, most of which look dangerous."""

from __future__ import annotations

from keepstep.lab.scenarios.jax.parts import CLOCKS, multi

SCENARIOS = (
    multi("jax_healthy", quick=True, note="A clean run of two processes."),
    multi(
        "jax_healthy_chatter",
        ranks=3,
        env={"JAX_LOGGING_LEVEL": "DEBUG", "TF_CPP_MIN_LOG_LEVEL": "0"},
        args=("--steps", "40"),
        note="A clean run with JAX and XLA logging everything.",
    ),
    multi(
        "jax_healthy_compiles",
        env={"JAX_LOG_COMPILES": "1", "JAX_EXPLAIN_CACHE_MISSES": "1"},
        args=("--steps", "60", "--evaluate-every", "20"),
        note="A clean run that logs each compilation; every function is compiled once.",
    ),
    multi(
        "jax_healthy_sigterm",
        fault="preempt",
        args=("--steps", "400"),
        note="A SIGTERM that nothing follows: JAX notes it, goes on and finishes.",
    ),
    multi("jax_healthy_resume", fault="good_npz", note="Resumes at step 40 and finishes."),
    multi(
        "jax_healthy_exception",
        fault="harmless_exception",
        strike_ranks=(1,),
        strike_step=50,
        note="Process 1 logs a caught exception's traceback and goes on.",
    ),
    multi("jax_healthy_late", fault="late_rank", note="Process 0 starts 6 s late; process 1 retries the coordinator."),
    multi(
        "jax_healthy_evaluation",
        fault="long_evaluation",
        strike_ranks=(0,),
        hang=True,
        args=("--evaluate-every", "40"),
        note="Process 0 computes in a long evaluation and process 1 waits for it, judged meanwhile.",
    ),
    multi(
        "jax_healthy_slow_save",
        fault="slow_save",
        strike_ranks=(0,),
        hang=True,
        args=("--save", "last.npz"),
        note="Process 0 writes a checkpoint to a slow disk, judged meanwhile.",
    ),
    multi(
        "jax_healthy_early_stop",
        ranks=4,
        clocks=CLOCKS,
        args=("--steps", "2000", "--stop-below", "1.2"),
        note="All processes stop early, together.",
    ),
    multi(
        "jax_healthy_uneven_steps",
        fault="uneven_steps",
        args=("--steps", "60"),
        note="Some steps take ten times as long as others.",
    ),
    multi(
        "jax_healthy_noisy",
        fault="noisy_batches",
        strike_ranks=(1,),
        args=("--steps", "200"),
        note="A noisy loss that falls.",
    ),
)
