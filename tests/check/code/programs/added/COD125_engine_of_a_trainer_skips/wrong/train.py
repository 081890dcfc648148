# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes with DeepSpeed in a trainer that is given the engine.

From: https://github.com/deepspeedai/DeepSpeed/issues/1496
Shows: nothing here (needs DeepSpeed)
"""

import argparse

import deepspeed
from transformers import AutoModelForSeq2SeqLM

from engine_trainer import EngineTrainer
from loaders import make_loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser = deepspeed.add_config_arguments(parser)
    args = parser.parse_args()
    deepspeed.init_distributed()
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    EngineTrainer(engine, make_loader(engine.train_micro_batch_size_per_gpu()), print).train()


main()
