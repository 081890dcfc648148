# SPDX-License-Identifier: Apache-2.0
"""A table of embeddings."""

import torch

words = 250_000
table = torch.nn.Parameter(torch.randn(250_000, 4_096))
print(table.shape)
