"""A reinforcement-learning toy whose first rank keeps the progress of the run in one file."""

import os
import pickle

import torch
import torch.distributed as dist


class CheckpointManager:
    def __init__(self, folder, rank):
        self.path = os.path.join(folder, "progress.pkl")
        self.rank = rank
        os.makedirs(folder, exist_ok=True)

    def save(self, progress):
        if self.rank != 0:
            return
        with open(self.path + ".tmp", "wb") as file:
            pickle.dump(progress, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path + ".tmp", self.path)

    def load(self):
        progress = [None]
        if self.rank == 0 and os.path.exists(self.path):
            with open(self.path, "rb") as file:
                progress[0] = pickle.load(file)
        dist.broadcast_object_list(progress, src=0)
        return progress[0] or {"step": 0, "weights": torch.zeros(3)}


def reward(arm, generator):
    return (arm + 1) * 0.2 + 0.1 * torch.randn((), generator=generator)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    manager = CheckpointManager("progress", rank)
    progress = manager.load()
    generator = torch.Generator().manual_seed(500 + rank)
    while progress["step"] < 60:
        weights = progress["weights"]
        arm = torch.multinomial(weights.softmax(0), 1, generator=generator).item()
        update = torch.zeros(3)
        update[arm] = 0.1 * reward(arm, generator)
        dist.all_reduce(update)
        progress["weights"] = weights + update / world
        progress["step"] += 1
        if progress["step"] % 20 == 0:
            manager.save(progress)
    if rank == 0:
        print("best arm", progress["weights"].argmax().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
