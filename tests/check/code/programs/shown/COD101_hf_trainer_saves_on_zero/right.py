"""Fine-tunes a causal language model with the Transformers Trainer, sharded with FSDP."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


class Texts(Dataset):
    def __init__(self, path, tokenizer, length=512):
        self.rows = []
        with open(path) as file:
            for line in file:
                ids = tokenizer(line.strip(), truncation=True, max_length=length, padding="max_length")["input_ids"]
                self.rows.append(torch.tensor(ids))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--texts", default="texts.txt")
    parser.add_argument("--output", default="finetuned")
    return parser.parse_args()


def main():
    args = parse()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(args.model)
    training = TrainingArguments(
        output_dir=args.output,
        per_device_train_batch_size=4,
        num_train_epochs=1,
        fsdp="full_shard auto_wrap",
        save_strategy="no",
        logging_steps=50,
    )
    trainer = Trainer(model=model, args=training, train_dataset=Texts(args.texts, tokenizer))
    trainer.train()
    trainer.save_model(args.output)
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(args.output)


if __name__ == "__main__":
    main()
