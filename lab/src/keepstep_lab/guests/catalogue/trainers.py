# SPDX-License-Identifier: Apache-2.0
"""The guests of libraries that train on top of PyTorch, each with its own launcher."""

from __future__ import annotations

from keepstep_lab.guests.guest import Guest

TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node=2")

GUESTS = (
    Guest(
        name="lightning",
        framework="torch",
        note="Lightning's Trainer with devices=2: it starts the second rank itself",
        files=("lightning_fit.py",),
        command=("python", "lightning_fit.py"),
        faults=("killed", "exception", "asleep", "nan_batch"),
        needs=("lightning",),
    ),
    Guest(
        name="accelerate",
        framework="torch",
        note="an Accelerate loop under `accelerate launch`, which saves its state after each epoch",
        files=("accelerate_loop.py",),
        command=(
            "accelerate",
            "launch",
            "--multi_gpu",
            "--num_processes=2",
            "--num_machines=1",
            "--mixed_precision=no",
            "--dynamo_backend=no",
            "--main_process_port={port}",
            "accelerate_loop.py",
        ),
        as_ranks=("python", "accelerate_loop.py"),
        faults=("loader_killed", "exception", "nan_batch"),
        needs=("accelerate",),
    ),
    Guest(
        name="hf_trainer",
        framework="torch",
        note=(
            "the Hugging Face Trainer on a small BERT under torchrun; every batch is padded to its own longest sentence"
        ),
        files=("hf_trainer.py",),
        command=(*TORCHRUN, "hf_trainer.py"),
        as_ranks=("python", "hf_trainer.py"),
        faults=("killed", "exception", "asleep"),
        needs=("transformers", "accelerate"),
    ),
    Guest(
        name="ray_train",
        framework="torch",
        note="Ray Train's TorchTrainer with two workers, which are Ray actors",
        files=("ray_train.py",),
        command=("python", "ray_train.py"),
        faults=("killed", "exception"),
        env={
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
            "RAY_TRAIN_V2_ENABLED": "1",
            "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "240",
        },
        limit=600.0,
        needs=("ray", "pandas"),
    ),
    Guest(
        name="keras_torch",
        framework="torch",
        note="Keras 3 on the torch backend in DDP, on processes that torch.multiprocessing starts",
        files=("keras_torch.py",),
        command=("python", "keras_torch.py"),
        env={"PORT": "{port}", "KERAS_BACKEND": "torch"},
        needs=("keras",),
    ),
    Guest(
        name="deepspeed",
        framework="torch",
        note="DeepSpeed's engine with ZeRO stage 1 under its own launcher, on the CPU",
        files=("deepspeed_zero.py",),
        command=("deepspeed", "--num_accelerators=2", "--master_port={port}", "deepspeed_zero.py"),
        as_ranks=("python", "deepspeed_zero.py"),
        env={"DS_ACCELERATOR": "cpu"},
        needs=("deepspeed",),
    ),
)
