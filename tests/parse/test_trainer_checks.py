# SPDX-License-Identifier: Apache-2.0
"""What trainers refuse with bare assertions, by what they say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSizeConflict
from keepstep.core.facts.data import BatchNotDivisible, UnevenShards
from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.sync import ModelsDiffer, RanksMissing, SharedStateRace
from keepstep.core.facts.training import CheckpointMismatch, CheckpointUnreadable
from keepstep.parse.tools.trainers import trainer_checks as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def test_every_pattern_compiles_and_is_found_by_its_anchors() -> None:
    assert all(each.pattern and each.anchors for each in table.SIGNATURES)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AssertionError: extra_dp_size should be a factor of world_size", WorldSizeConflict),
        ("AssertionError: nproc_per_node should be a divisor of world_size.", WorldSizeConflict),
        (
            "AssertionError: NeoXArgs.calculate_derived() (global_num_gpus / pp_size) / mp_size [(4 / 4) / 2] must be a whole number",
            WorldSizeConflict,
        ),
        ("AssertionError: world_size=8, pp=3, mp=2", WorldSizeConflict),
        ("AssertionError: Number of KV heads must be at least model_parallel_size for now!", WorldSizeConflict),
        ("AssertionError: MPI rank 3 does not match torch rank 1", WorldSizeConflict),
        ("ValueError: mpu pipeline parallel world size (2) conflicts with pp_size=4.", WorldSizeConflict),
        ("RuntimeError: Expected at least 2 ranks, got 1.", WorldSizeConflict),
        ("ValueError: The provided rank=4 is not valid for 4 workers.", WorldSizeConflict),
        ("AssertionError: The dimension at index 0 has value 7, but it is sharded over 4 devices.", WorldSizeConflict),
        (
            "AssertionError: current global batch size (4) is too small for micro_batch_size (2) * data_parallel_size (8) = 16.",
            BatchNotDivisible,
        ),
        ("AssertionError: LOCAL_RANK (0) != OMPI_COMM_WORLD_LOCAL_RANK (1), not sure how", ClusterSpecInvalid),
        (
            "AssertionError: Mismatch in local rank setting, args.local_rank=0 but env['LOCAL_RANK']=1.",
            ClusterSpecInvalid,
        ),
        ("ValueError: MPICH requires same number of devices per node", ClusterSpecInvalid),
        ("RuntimeError: Cannot determine world size: WORLD_SIZE environment variable not set and", RankVariableMissing),
        ("AssertionError: non-master node should provide master address and port", RankVariableMissing),
        ("AssertionError: Invalid checkpoints and world size for sd split", CheckpointMismatch),
        ("AssertionError: checkpoint count 2 is different from saved mp_world_size 4", CheckpointMismatch),
        ("AssertionError: Load checkpoint zero_pp.pt dst numel 40 != src numel 80", CheckpointMismatch),
        ("ValueError: Saved DP size (6) is not an exact multiple of current DP size (4).", CheckpointMismatch),
        (
            "AssertionError: OptimizerParamScheduler: class input value 0.0003 and checkpointvalue 0.0001 for learning rate do not match",
            CheckpointMismatch,
        ),
        (
            "RuntimeError: You have configured 2 optimizers but the checkpoint contains 1 optimizers to load.",
            CheckpointMismatch,
        ),
        ("ValueError: Model is sharded, but checkpoint is not sharded. Please pass in a model", CheckpointMismatch),
        ("    assert len(self.ckpt_list) > 0", CheckpointUnreadable),
        ("ValueError: End checkpoint is unfinished and cannot be used to resume the training.", CheckpointUnreadable),
        (
            "AssertionError: found 2 devices in process group but world_size=4. Check torch.cuda.set_device",
            WorldSizeConflict,
        ),
        ("AssertionError: n_gpu: 4, local_world_size: 8", WorldSizeConflict),
        ("FileNotFoundError: /tmp/x is not an shared directory for rank 9, please make sure", ClusterSpecInvalid),
        ("ValueError: dataset has 3 rows, fewer than dp_world_size=8", UnevenShards),
        ("RuntimeError: Checkpoint at /ckpt/10 is not in a supported format.", CheckpointMismatch),
        ("ValueError: /ckpt/global_step10 is not a zero checkpoint", CheckpointUnreadable),
        ("ValueError: The path '/ckpt/last' does not point to a valid checkpoint. Make sure", CheckpointUnreadable),
        ("Exception: Trying to use an uninitialized 'dummy' batch. This usually indicates", UnevenShards),
        (
            "ValueError: Detected mixed initialization where some ranks have model on cpu or gpu and some ranks are on meta.",
            ModelsDiffer,
        ),
        ("RuntimeError: Internal error: shared memory prefix=3 was not registered by local leader.", SharedStateRace),
        ("MisconfigurationException: GPUs requested but none are available.", CudaMismatch),
        ("world size is 32 but have 4 available devices", WorldSizeConflict),
        ("[1][2] Stopping training due to lack of heartbeats from <class 'a.InferenceWorker'>", RanksMissing),
        (
            "AssertionError: To avoid prohibitive costs, zero stage must be 0 or 1 when using pipeline parallelism",
            UnsupportedCombination,
        ),
    ],
)
def test_a_refusal_is_read(text, kind):
    assert any(isinstance(fact, kind) for fact in facts(text)), facts(text)


def test_the_rank_that_could_not_fetch_is_named():
    text = "No such file or directory: ep1.pt. This likely implies a download failed on local rank 0, which is global rank 8"
    assert [fact.rank for fact in facts(text)] == [8]


@pytest.mark.parametrize(
    "text",
    [
        "INFO: world_size=8, pp=2, mp=2",
        "loading distributed checkpoint from /ckpt",
        "the batch size should be a factor of two",
        "expected at least 2 ranks to be slow",
        "checkpoint saved; 4 param_groups",
        "All ranks finished to download.",
    ],
)
def test_ordinary_lines_are_not_read(text):
    assert not facts(text)
