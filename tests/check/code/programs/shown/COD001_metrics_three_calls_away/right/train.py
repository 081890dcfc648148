"""Trains a classifier with DDP; the logger of another module averages a counter over all ranks."""

from trainer import Trainer


def main():
    trainer = Trainer(epochs=3, batch_size=16)
    trainer.fit()
    trainer.close()


if __name__ == "__main__":
    main()
