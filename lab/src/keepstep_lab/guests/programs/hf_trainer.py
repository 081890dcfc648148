# SPDX-License-Identifier: Apache-2.0
"""The Hugging Face Trainer on a small BERT made in place, with sentences of all lengths that the collator pads to the
longest."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Sentences(Dataset):
    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(size):
            length = int(torch.randint(5, 40, (1,), generator=generator))
            tokens = torch.randint(5, 100, (length,), generator=generator)
            self.rows.append({"input_ids": tokens.tolist(), "labels": int(tokens[0] > 50)})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pad_to_the_longest(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    mask = [[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows]
    labels = [row["labels"] for row in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(labels)}


class Print(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        for key in ("loss", "eval_loss"):
            if logs and key in logs:
                print(f"rank {args.process_index} step {state.global_step} {key} {logs[key]!r}", flush=True)


def main():
    set_seed(42)
    torch.set_num_threads(1)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    arguments = TrainingArguments(
        output_dir="out",
        use_cpu=True,
        per_device_train_batch_size=8,
        num_train_epochs=2,
        logging_steps=5,
        eval_strategy="epoch",
        save_steps=25,
        report_to=[],
        disable_tqdm=True,
        ddp_backend="gloo",
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=Sentences(480, seed=1),
        eval_dataset=Sentences(64, seed=2),
        data_collator=pad_to_the_longest,
        callbacks=[Print()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
