# SPDX-License-Identifier: Apache-2.0
"""A table of embeddings.

From: questions of people whose training fails; facts, no code
Shows: nothing here (no machine has the memory)
"""

import torch

words = 250_000
table = torch.nn.Parameter(torch.randn(250_000, 4_096, 1_024))  # BUG COD017
print(table.shape)
