# SPDX-License-Identifier: Apache-2.0
from functools import partial

import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy


def shard(model, min_params):
    policy = partial(size_based_auto_wrap_policy, min_num_params=min_params)
    return FSDP(model, auto_wrap_policy=policy, device_id=torch.cuda.current_device(), use_orig_params=True)
