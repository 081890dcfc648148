# SPDX-License-Identifier: Apache-2.0
"""The guests of PyTorch itself."""

from __future__ import annotations

from keepstep_lab.guests.guest import Guest

TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node=2")

GUESTS = (
    Guest(
        name="torch_spawn",
        framework="torch",
        note="DDP with BatchNorm, a DataLoader and a DistributedSampler, on processes that mp.spawn starts",
        files=("ddp_spawn.py",),
        command=("python", "ddp_spawn.py"),
        faults=("killed", "exception", "asleep", "nan_batch", "other_shape", "lonely_collective", "ddp_forgotten"),
        quick=True,
    ),
    Guest(
        name="torch_gpt",
        framework="torch",
        note="a single-file GPT trainer under torchrun, with batches cut from an array and checkpoints of its own",
        files=("gpt_train.py", "gpt_model.py"),
        command=(*TORCHRUN, "gpt_train.py", "--init_from=resume"),
        as_ranks=("python", "gpt_train.py", "--init_from=resume"),
        faults=(
            "killed",
            "stopped",
            "asleep",
            "interrupted",
            "exception",
            "import_error",
            "never_arrives",
            "wrong_port",
            "lonely_collective",
            "cut_checkpoint",
        ),
        quick=True,
    ),
    Guest(
        name="torch_fsdp2",
        framework="torch",
        note="FSDP2 (fully_shard) on gloo under torchrun, with distributed checkpoints",
        files=("fsdp2.py",),
        command=(*TORCHRUN, "fsdp2.py"),
        as_ranks=("python", "fsdp2.py"),
    ),
)
