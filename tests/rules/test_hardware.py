# SPDX-License-Identifier: Apache-2.0
"""Devices, links and machines that failed."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def root(folder: Path, **logs: str) -> str | None:
    found = findings(folder, **logs)
    return found[0].cause.value if found else None


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


def test_an_ecc_error_is_the_device(tmp_path):
    found = findings(tmp_path, rank1="RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    assert (found[0].cause.value, found[0].ranks) == ("hardware.gpu_fault_xid_ecc", (1,))


def test_a_fatal_xid_explains_the_launch_failure(tmp_path):
    text = "RuntimeError: CUDA error: unspecified launch failure\n"
    dmesg = "NVRM: Xid (PCI:0000:03:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = findings(tmp_path, rank0=text, dmesg=dmesg)
    assert (found[0].rule, found[0].confidence.value) == ("HWD001", "established")


def test_the_drivers_clean_up_after_a_killed_program_is_no_cause(tmp_path):
    dmesg = "NVRM: Xid (PCI:0000:00:06): 43, pid=1494, name=python, channel 0x0000001e\n"
    text = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in <module>\nKeyError: 3\n'
    assert root(tmp_path, rank0=text, dmesg=dmesg) == "user.code_exception"
    assert not [each for each in findings(tmp_path, rank0=STEPS, dmesg=dmesg) if each.rule == "HWD001"]


def test_an_illegal_access_alone_is_only_a_guess(tmp_path):
    found = findings(tmp_path, rank0="RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert found[0].confidence.value == "hypothesis"


def test_an_nvlink_error_is_the_link(tmp_path):
    text = "NVRM: Xid (PCI:0000:02:00): 74, pid=1, NVLink: fatal error detected on link 6\n"
    assert root(tmp_path, dmesg=text) == "hardware.nvlink_pcie_p2p"


def test_errors_of_the_slot_of_a_card_that_left_the_bus_are_the_card(tmp_path):
    text = (
        "[74889.5] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010\n"
        "[74889.6] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n"
    )
    assert root(tmp_path, dmesg=text) == "hardware.gpu_fault_xid_ecc"


def test_a_link_that_went_down_in_a_healthy_run_is_no_finding(tmp_path):
    assert root(tmp_path, rank0=STEPS, dmesg="mlx5_core 0000:5e:00.0 eth2: Link down\n") is None


SET_UP = """\
h:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
h:2:3 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC
h:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE
"""
WAITED = "".join(
    f"[rank{n}]:[E ProcessGroupNCCL.cpp:475] [Rank {n}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600410 milliseconds\n"
    for n in (0, 1)
)


def test_all_ranks_stuck_in_the_first_collective_over_direct_links_point_at_the_link(tmp_path):
    found = findings(tmp_path, all=SET_UP + WAITED)
    assert (found[0].rule, found[0].confidence.value) == ("HWD006", "hypothesis")


def test_a_later_collective_is_not_blamed_on_the_link(tmp_path):
    found = findings(tmp_path, all=SET_UP + WAITED.replace("SeqNum=1,", "SeqNum=881,"))
    assert found[0].rule == "SYN002"


def test_silence_after_set_up_is_a_guess_at_the_link(tmp_path):
    found = findings(tmp_path, all=SET_UP)
    assert (found[0].rule, found[0].confidence.value) == ("HWD008", "hypothesis")


def test_steps_after_set_up_are_no_finding(tmp_path):
    assert root(tmp_path, all=SET_UP + STEPS) is None


def test_a_peer_with_no_parameters_is_a_link_that_lost_them(tmp_path):
    text = (
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 382 params, while rank 1 has "
        "inconsistent 0 params.\n"
    )
    assert root(tmp_path, rank0=text) == "hardware.nvlink_pcie_p2p"


def test_a_peer_with_other_parameters_built_another_model(tmp_path):
    text = (
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 382 params, while rank 1 has "
        "inconsistent 380 params.\n"
    )
    assert root(tmp_path, rank0=text) == "sync.replica_desync"


def test_a_fault_in_the_kernels_log_is_that_of_the_only_rank_whose_device_failed(tmp_path):
    text = (
        "[rank6]: RuntimeError: CUDA error: unspecified launch failure\n"
        "kernel: NVRM: Xid (PCI:0000:db:00): 94, pid=112233, name=python, Contained: SM (0x1). RST: No, D-RST: No\n"
    )
    (tmp_path / "log.txt").write_text(text)
    first = explain_paths([tmp_path]).report.findings[0]
    assert (first.cause.value, first.ranks) == ("hardware.gpu_fault_xid_ecc", (6,))


def test_a_fault_of_the_machine_is_a_warning_where_nothing_says_that_it_ended_the_run(tmp_path: Path) -> None:
    told = "[12345.678] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0\n"
    (found,) = findings(tmp_path, dmesg=told)
    assert (found.rule, found.severity.value) == ("HWD004", "warning")
