"""Trains a language model toy with DeepSpeed ZeRO and saves a checkpoint now and then."""

import argparse

import deepspeed
import torch
from torch import nn
from torch.utils.data import TensorDataset

CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
}


class Toy(nn.Module):
    def __init__(self, vocabulary=512, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.mix(self.embed(tokens[:, :-1]))
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--output", default="checkpoints")
    args = parser.parse_args()

    deepspeed.init_distributed()
    model = Toy()
    data = TensorDataset(torch.randint(0, 512, (8000, 65)))
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=data, config=CONFIG
    )
    for step, (tokens,) in enumerate(loader, start=1):
        loss = engine(tokens.to(engine.device))
        engine.backward(loss)
        engine.step()
        if step % args.save_every == 0:
            engine.save_checkpoint(args.output, tag=f"step-{step}")
            if engine.global_rank == 0:
                print(f"saved step {step}")


if __name__ == "__main__":
    main()
