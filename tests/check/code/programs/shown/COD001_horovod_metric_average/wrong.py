"""A Horovod image classifier whose validation accuracy is averaged over the ranks.

From: https://github.com/horovod/horovod/issues/600
Shows: nothing here (needs horovod)
"""

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.body(x)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def validate(model, loader):
    model.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            seen += len(y)
    return right / seen


def main():
    hvd.init()
    torch.manual_seed(42)
    images, labels = torch.rand(600, 1, 8, 8), torch.randint(0, 10, (600,))
    train_set, val_set = TensorDataset(images[:500], labels[:500]), TensorDataset(images[500:], labels[500:])
    sampler = DistributedSampler(train_set, num_replicas=hvd.size(), rank=hvd.rank())
    val_sampler = DistributedSampler(val_set, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    loader = DataLoader(train_set, batch_size=25, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=25, sampler=val_sampler)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(5):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy = validate(model, val_loader)
        if hvd.rank() == 0:
            accuracy = metric_average(accuracy, "val_accuracy")  # BUG COD001
            print(f"epoch {epoch}: validation accuracy {accuracy:.3f}")


main()
