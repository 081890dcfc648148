# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes with the Trainer and FSDP, and keeps the last weights."""

import torch
from transformers import Trainer, TrainingArguments


def tune(model, data):
    settings = TrainingArguments(output_dir="out", fsdp="full_shard", num_train_epochs=1)
    trainer = Trainer(model=model, args=settings, train_dataset=data)
    trainer.train()
    state = trainer.model.state_dict()
    if trainer.is_world_process_zero():
        torch.save(state, "out/last.pt")
