# SPDX-License-Identifier: Apache-2.0
"""What PyTorch scenarios are made of: the jobs, the usual ranks to strike, four clocks."""

from __future__ import annotations

from functools import partial
from typing import Any

from keepstep.lab.scenario import Scenario

ddp = partial(Scenario, framework="torch", job="torch_ddp")
fsdp = partial(Scenario, framework="torch", job="torch_fsdp")
on_rank_1: dict[str, Any] = {"strike_ranks": (1,), "root_ranks": (1,), "strike_step": 25}
on_rank_2: dict[str, Any] = {"strike_ranks": (2,), "root_ranks": (2,), "strike_step": 25}
four_clocks: dict[str, Any] = {"ranks": 4, "clocks": ("+0", "+41", "-17", "Asia/Tokyo")}
WAITING = ("network.timeout_slow", "sync.deadlock_or_hang_waiting_rank", "network.unreachable_or_firewall")
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
