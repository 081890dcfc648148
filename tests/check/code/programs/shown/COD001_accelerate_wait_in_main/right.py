"""Fine-tunes a small diffusion-like regressor with Accelerate and keeps only the trainable weights."""

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from torch.utils.data import DataLoader, TensorDataset

logger = get_logger(__name__)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--project-dir", default="out")
    parser.add_argument("--checkpointing-steps", type=int, default=20)
    parser.add_argument("--max-steps", type=int, default=100)
    return parser.parse_args()


def trainable(model):
    names = {name for name, value in model.named_parameters() if value.requires_grad}
    return {key: value for key, value in model.state_dict().items() if key in names}


def main():
    args = parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    data = TensorDataset(torch.randn(512, 16), torch.randn(512, 4))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    dit = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(dit.parameters(), lr=1e-4)
    dit, optimizer, loader = accelerator.prepare(dit, optimizer, loader)

    global_step = 0
    while global_step < args.max_steps:
        for x, y in loader:
            with accelerator.accumulate(dit):
                loss = torch.nn.functional.mse_loss(dit(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if not accelerator.sync_gradients:
                continue
            global_step += 1
            if global_step % args.checkpointing_steps == 0:
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    folder = os.path.join(args.project_dir, f"checkpoint-{global_step}")
                    os.makedirs(folder, exist_ok=True)
                    weights = trainable(accelerator.unwrap_model(dit))
                    torch.save(weights, os.path.join(folder, "dit.part"))
                    os.replace(os.path.join(folder, "dit.part"), os.path.join(folder, "dit.pt"))
            if global_step >= args.max_steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
