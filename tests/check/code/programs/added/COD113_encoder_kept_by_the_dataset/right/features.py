# SPDX-License-Identifier: Apache-2.0
import torch


class Encoder:
    def __init__(self, device="cuda"):
        self.device = device
        self.net = torch.hub.load("pytorch/vision", "resnet18").to(device).eval()

    @torch.no_grad()
    def encode(self, image):
        return self.net(image[None].to(self.device))[0]
