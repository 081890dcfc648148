# SPDX-License-Identifier: Apache-2.0
import torch
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType


class Saver:
    def __init__(self, folder, every, writes):
        self.folder, self.every, self.writes = folder, every, writes
        self.config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)

    def maybe_save(self, model, step):
        if step % self.every:
            return
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, self.config):
            state = model.state_dict()
        if not self.writes:
            return
        torch.save(state, f"{self.folder}/step{step}.pt")
