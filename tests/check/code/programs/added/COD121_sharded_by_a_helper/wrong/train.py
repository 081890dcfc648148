# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a language model that a helper shards.

From: https://github.com/PrimeIntellect-ai/OpenDiloco/pull/6
Shows: nothing here (needs GPUs)
"""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from rows import batches
from trainer import SFT


@dataclass
class Config:
    lr: float = 2e-5
    max_norm: float = 1.0
    min_params: int = 10_000_000


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    sft = SFT(AutoModelForCausalLM.from_pretrained("gpt2"), Config())
    for batch in batches():
        sft.step(batch)


main()
