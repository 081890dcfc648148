# SPDX-License-Identifier: Apache-2.0
"""PyTorch runs that go on, but wrongly or slowly."""

from __future__ import annotations

from keepstep.lab.scenarios.torch.parts import ddp, four_clocks, on_rank_1, on_rank_2

SCENARIOS = (
    ddp(
        "torch_nan_loss",
        cause="numeric.nan_or_divergence",
        fault="nan_data",
        note="Rank 1's file holds rows of nan: its loss is nan first, then all ranks'; after three it gives up.",
        strike_ranks=(1,),
        root_ranks=(1,),
    ),
    ddp(
        "torch_nan_loss_four",
        cause="numeric.nan_or_divergence",
        fault="nan_data",
        note="The same with four ranks whose clocks differ; rank 2 has the bad rows.",
        strike_ranks=(2,),
        root_ranks=(2,),
        **four_clocks,
    ),
    ddp(
        "torch_divergence",
        cause="numeric.nan_or_divergence",
        args=("--lr", "1e12"),
        note="The learning rate is far too high: the loss explodes, and is not finite a few steps later.",
    ),
    ddp(
        "torch_slow_divergence",
        cause="numeric.nan_or_divergence",
        args=("--lr", "6"),
        note="The learning rate is too high: the loss grows and grows, but stays finite.",
    ),
    ddp(
        "torch_plateau",
        cause="numeric.plateau",
        later="guard",
        args=("--lr", "0"),
        note="The learning rate is 0: the loss moves with the batches, and never falls.",
    ),
    ddp(
        "torch_bare_model",
        cause="config.trains_alone",
        later="guard",
        args=("--bare", "--epochs", "8"),
        note="DDP was forgotten: the ranks average their losses for the log, and no gradient.",
    ),
    ddp(
        "torch_flipped_bit",
        cause="sync.replica_desync",
        later="guard",
        fault="flipped_bit",
        note="One bit of one weight of rank 1 flips; its replica differs from then on, nothing fails.",
        **on_rank_1,
    ),
    ddp(
        "torch_recompiling",
        cause="slow.recompilation",
        fault="changing_sizes",
        args=("--compile", "aot_eager", "--epochs", "2"),
        note="Every batch has another size: torch.compile compiles until it hits its limit.",
    ),
    ddp(
        "torch_slow_input",
        cause="slow.input_bound",
        also_accept=("slow.straggler",),
        fault="slow_input",
        args=("--steps", "60"),
        note="Each batch of rank 1 takes half a second; all ranks wait for it, its own log shows the data time.",
        **on_rank_1,
    ),
    ddp(
        "torch_starved_cpu",
        cause="slow.straggler",
        also_accept=("resource.contention",),
        later="run",
        fault="starved_cpu",
        needs=("cgroup",),
        args=("--epochs", "4", "--timeout", "60"),
        mark="step 20",
        note="Rank 2 of four gets a twentieth of a core: every step waits for it, and the logs do not show for whom.",
        **four_clocks,
        **on_rank_2,
    ),
)
