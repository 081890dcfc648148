# SPDX-License-Identifier: Apache-2.0
"""A fast network that is there and not used is said, in a run that ends well too; a host without one is not."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths

ENDS = "step 1 loss 2.3\nstep 2 loss 2.2\ntraining finished\n"
SOCKET = "node{0}:101:140 [0] NCCL INFO Using network Socket\n"
IB = "node{0}:101:140 [0] NCCL INFO Using network IB\n"
FOUND = "node{0}:101:140 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.7<0>\n"


def found(folder: Path, *logs: str) -> list[tuple[str, tuple[int, ...]]]:
    for rank, text in enumerate(logs):
        (folder / f"rank{rank}.log").write_text(text.format(rank) + ENDS)
    findings = explain_paths([folder], kernel_log=False).report.findings
    return [(each.rule, each.ranks) for each in findings]


def test_the_device_is_there_and_sockets_are_used(tmp_path: Path) -> None:
    assert found(tmp_path, FOUND + SOCKET, FOUND + IB) == [("SLO011", (0,))]


def test_one_rank_has_it_and_another_does_not(tmp_path: Path) -> None:
    assert found(tmp_path, IB, SOCKET) == [("SLO011", (1,))]


def test_sockets_are_all_there_is(tmp_path: Path) -> None:
    none = "node{0}:101:140 [0] NCCL INFO NET/IB : No device found.\n"
    assert found(tmp_path, none + SOCKET, none + SOCKET) == []
