# SPDX-License-Identifier: Apache-2.0
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict


def save(model, optim, cfg, step):
    m, o = get_state_dict(model, optim)
    dcp.save({"model": m, "optim": o}, checkpoint_id=str(cfg.output_dir / f"step{step}"))  # BUG COD129
