"""Fine-tunes a policy: a backbone and an action head, both wrapped in DDP.

From: https://github.com/moojink/openvla-oft/issues/160
Shows: differs 2 ranks torch (weights)
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class ActionHead(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions))

    def predict_action(self, hidden):
        return self.layers(hidden).tanh()

    def forward(self, hidden):
        return self.predict_action(hidden)


def wrap(module):
    return DDP(module, find_unused_parameters=False)


def run_forward_pass(backbone, action_head, observation, action):
    hidden = backbone(observation)
    predicted = action_head.module.predict_action(hidden)  # BUG COD110
    return nn.functional.l1_loss(predicted, action)


def episodes(rank, steps):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        observation = torch.randn(8, 12, generator=generator)
        yield observation, observation[:, :3].clamp(-1, 1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    backbone = wrap(nn.Linear(12, 16))
    action_head = wrap(ActionHead(16, 3))
    backbone_optimizer = torch.optim.AdamW(backbone.parameters(), lr=1e-3)
    head_optimizer = torch.optim.AdamW(action_head.parameters(), lr=1e-3)
    for observation, action in episodes(dist.get_rank(), 20):
        loss = run_forward_pass(backbone, action_head, observation, action)
        backbone_optimizer.zero_grad()
        head_optimizer.zero_grad()
        loss.backward()
        backbone_optimizer.step()
        head_optimizer.step()
    if dist.get_rank() == 0:
        print("20 steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
