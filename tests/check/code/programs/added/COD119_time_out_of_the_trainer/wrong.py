# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes with the Trainer; the first process takes long to tokenize, so the time-out was raised.

Shows: nothing here (needs transformers)
"""

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


def main():
    tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    arguments = TrainingArguments(  # BUG COD119
        output_dir="out",
        per_device_train_batch_size=16,
        num_train_epochs=3,
        ddp_timeout=86400,
    )
    data = load_dataset("imdb", split="train")
    with arguments.main_process_first(desc="tokenize"):
        data = data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
    Trainer(model=model, args=arguments, train_dataset=data, tokenizer=tokenizer).train()


if __name__ == "__main__":
    main()
