# SPDX-License-Identifier: Apache-2.0
"""Healthy PyTorch runs, some of which look dangerous."""

from __future__ import annotations

from keepstep.lab.scenarios.torch.parts import ddp, four_clocks, fsdp

SCENARIOS = (
    ddp("torch_healthy_ddp", note="A clean run of two ranks.", quick=True),
    fsdp("torch_healthy_fsdp", note="A clean FSDP run of two ranks."),
    ddp(
        "torch_healthy_chatter",
        ranks=3,
        args=("--workers", "1", "--epochs", "1"),
        env={"TORCH_DISTRIBUTED_DEBUG": "INFO", "TORCH_CPP_LOG_LEVEL": "INFO"},
        note="A clean run with torch's own logging at INFO and data loading workers.",
    ),
    ddp(
        "torch_healthy_sizes",
        fault="changing_sizes",
        strike_ranks=(1,),
        strike_step=25,
        args=("--keep-last",),
        note="The batches of rank 1 have another number of rows every time, and the last of each epoch is short.",
    ),
    ddp(
        "torch_healthy_torchrun",
        launcher="torchrun",
        fault="harmless_words",
        strike_step=30,
        note="A clean torchrun run, a log file per rank; prints '0 errors', 'nan_to_num enabled' and such.",
    ),
    ddp(
        "torch_healthy_tee",
        launcher="torchrun-tee",
        fault="harmless_exception",
        strike_ranks=(0,),
        strike_step=30,
        args=("--stop-below", "1.9"),
        note="One terminal for all ranks; rank 0 logs a caught exception and goes on; early stopping.",
    ),
    ddp("torch_healthy_resume", fault="good_checkpoint", note="Resumes from a checkpoint at step 40 and finishes."),
    fsdp(
        "torch_healthy_sharded",
        fault="good_dcp",
        args=("--save", "sharded-new"),
        note="FSDP resumes from a sharded checkpoint of one rank, and writes its own.",
    ),
    ddp(
        "torch_healthy_late_rank",
        fault="late_rank",
        args=("--epochs", "1"),
        env={"TORCH_CPP_LOG_LEVEL": "INFO"},
        note="Rank 0 starts 6 s late; rank 1 cannot connect at first, retries, and all is well.",
    ),
    ddp(
        "torch_healthy_evaluation",
        fault="long_evaluation",
        strike_ranks=(0,),
        hang=True,
        args=("--evaluate", "--epochs", "2"),
        note="Rank 0 evaluates for a while and the others wait in a barrier; looked at meanwhile.",
    ),
    ddp(
        "torch_healthy_slow_save",
        fault="slow_save",
        strike_ranks=(0,),
        hang=True,
        args=("--save", "last.pt"),
        note="Rank 0 writes its checkpoint to a slow disk, the others wait in the next step; looked at meanwhile.",
    ),
    ddp(
        "torch_healthy_compile",
        fault="first_step",
        hang=True,
        args=("--compile", "inductor"),
        note="torch.compile takes a while in the first step, in which no rank says anything; looked at meanwhile.",
    ),
    ddp(
        "torch_healthy_uneven_steps",
        fault="uneven_steps",
        note="Some steps take ten times as long as others, on any of four ranks whose clocks differ.",
        **four_clocks,
    ),
    ddp(
        "torch_healthy_noisy",
        fault="noisy_batches",
        args=("--lr", "0.3"),
        note="The loss jumps up and down, and falls all the same.",
    ),
)
