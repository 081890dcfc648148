# SPDX-License-Identifier: Apache-2.0
"""What ran out: device and host memory, shared memory, disks, limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.codec import to_dict
from keepstep.model.evidence import Evidence, Origin
from keepstep.model.facts import DeviceMemoryForecast
from keepstep.model.finding import Finding


def findings(folder: Path, **logs: str) -> tuple[Finding, ...]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return explain_paths([folder]).report.findings


def root(folder: Path, **logs: str) -> str | None:
    found = findings(folder, **logs)
    return found[0].cause.value if found else None


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))

RESET = (
    "Traceback (most recent call last):\n"
    '  File "/srv/train.py", line 9, in <module>\n    loss.backward()\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:1: Connection reset by peer\n"
)


def test_device_memory_that_ran_out_explains_the_peers_reset_connection(tmp_path):
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79 GiB\n"
    )
    found = findings(tmp_path, rank0=STEPS + RESET, rank1=STEPS + oom)
    assert found[0].cause.value == "resource.gpu_oom"
    assert found[0].ranks == (1,)
    assert "2.00 GiB" in found[0].title


def test_what_was_missing_is_said_in_numbers(tmp_path):
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 "
        "GiB of which 1.06 GiB is free. Of the allocated memory 76.20 GiB is allocated by PyTorch\n"
    )
    found = findings(tmp_path, rank1=STEPS + oom)[0]
    assert found.because == (
        "an allocation of 2.00 GiB did not fit into GPU 1: 1.06 GiB of 79.15 GiB was free, at least 0.94 GiB too "
        "little; tensors held 76.20 GiB"
    )


def test_an_allocator_that_goes_on_with_less_is_no_finding(tmp_path):
    text = "failed to allocate 10.92G (117 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n" + STEPS
    assert root(tmp_path, rank0=text) is None


def test_the_kernels_victim_is_named_by_its_process_number(tmp_path):
    dmesg = "[ 1.0] Memory cgroup out of memory: Killed process 57 (python) total-vm:1kB\n"
    agent = "E1 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 57) of binary: /usr/bin/python\n"
    found = findings(tmp_path, dmesg=dmesg, terminal=agent)
    assert found[0].cause.value == "resource.host_oom_killed"
    assert found[0].ranks == (1,)
    assert found[0].confidence.value == "established"


def test_a_silent_kill_is_only_a_guess_at_host_memory(tmp_path):
    text = "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL\n"
    found = findings(tmp_path, log=text)
    assert (found[0].rule, found[0].confidence.value, found[0].ranks) == ("RES003", "hypothesis", (3,))


def test_small_shared_memory_is_known_by_the_call_that_failed(tmp_path):
    text = "n:1:2 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n"
    assert root(tmp_path, log=text) == "resource.shm"


def test_a_bus_error_of_a_loader_worker_is_shared_memory(tmp_path):
    text = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. \n"
    assert root(tmp_path, log=text) == "resource.shm"


def test_open_files_explain_shared_memory_that_could_not_be_opened(tmp_path):
    text = (
        "RuntimeError: unable to open shared memory object </torch_28_11> in read-write mode\n"
        "OSError: [Errno 24] Too many open files\n"
    )
    assert root(tmp_path, log=text) == "resource.fd_or_process_limit"


def test_a_full_disk_is_told_with_its_path(tmp_path):
    found = findings(tmp_path, rank0="OSError: [Errno 28] No space left on device: '/data/ckpt.pt'\n")
    assert found[0].cause.value == "resource.disk_full"
    assert "/data/ckpt.pt" in found[0].title


def test_a_device_held_by_another_process_is_contention(tmp_path):
    text = "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"
    assert root(tmp_path, log=text) == "resource.contention"


def test_several_ranks_that_were_killed_are_told_in_the_plural(tmp_path):
    text = "process 0 terminated with signal SIGKILL\nprocess 1 terminated with signal SIGKILL\n"
    assert findings(tmp_path, run=text)[0].title.startswith("ranks 0 and 1 were killed (SIGKILL)")


def test_a_killed_rank_explains_those_that_merely_lost_it(tmp_path):
    died = (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Worker unexpectedly exits with a connection error code 2. End of file.\n"
    )
    assert root(
        tmp_path, run="ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing\n" + died
    ) == ("resource.host_oom_killed")


def test_a_loader_worker_that_vanished_beside_other_devices_hints_at_host_memory(tmp_path):
    text = "Exception in device=TPU:6: DataLoader worker (pid(s) 1288) exited unexpectedly\n"
    assert root(tmp_path, run=text) == "resource.host_oom_killed"


def test_a_loader_worker_that_vanished_from_a_single_process_is_told_as_that(tmp_path):
    text = RESET.replace("[gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:1: Connection reset by peer", "{}")
    assert root(tmp_path, run=text.format("DataLoader worker (pid(s) 1288) exited unexpectedly")) == (
        "data.loader_worker_killed"
    )


def test_workers_that_were_never_placed_are_a_matter_of_contention(tmp_path):
    line = "Warning  FailedScheduling  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.\n"
    assert root(tmp_path, run=line * 2) == "resource.contention"


def test_workers_that_were_placed_in_the_end_are_no_finding(tmp_path):
    line = "Warning  FailedScheduling  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.\n"
    assert root(tmp_path, run=line * 2 + STEPS) is None


def test_a_process_that_could_not_be_forked_met_a_limit(tmp_path):
    text = (
        'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    loader = iter(data)\n'
        '  File "/usr/lib/python3.8/multiprocessing/popen_fork.py", line 70, in _launch\n    self.pid = os.fork()\n'
        "BlockingIOError: [Errno 11] Resource temporarily unavailable\n"
    )
    assert root(tmp_path, run=text) == "resource.fd_or_process_limit"


def readings(values: list[float], end: str) -> str:
    return "".join(f"epoch {n} rss {value} GB\n" for n, value in enumerate(values)) + end


def test_memory_that_rose_until_the_kill_is_a_leak(tmp_path):
    assert root(tmp_path, log=readings([6.1, 9.0, 14.9, 22.4, 33.0], "Killed\n")) == "resource.memory_leak"


def test_memory_that_rose_until_the_loader_lost_a_worker_is_a_leak(tmp_path):
    end = "RuntimeError: DataLoader worker (pid(s) 4433) exited unexpectedly\n"
    assert root(tmp_path, log=readings([12.4, 19.1, 25.9, 32.5, 39.2], end)) == "resource.memory_leak"


def test_memory_that_levelled_off_before_the_kill_is_no_leak(tmp_path):
    assert root(tmp_path, log=readings([6.1, 9.0, 9.1, 9.1, 9.2, 9.1], "Killed\n")) == "resource.host_oom_killed"


def test_memory_of_a_device_that_rises_is_no_leak_while_it_suffices(tmp_path):
    text = "".join(f"Epoch: [{n}] mem: {value}MB\n" for n, value in enumerate([5000, 6100, 6150, 6200, 6210, 6210]))
    assert findings(tmp_path, log=text) == ()


def measured(
    folder: Path,
    memory: Callable[[int, int], float],
    *,
    epoch: int | None = 100,
    step_s: float = 0.1,
    left: int = 50 << 30,
) -> None:
    """``metrics.jsonl`` of two ranks over 600 steps; ``memory``: megabytes of a rank after so many steps."""
    with (folder / "metrics.jsonl").open("w") as out:
        for step in range(0, 600, 3):
            ranks = {
                str(rank): {
                    "rss": 0,
                    "own": int(memory(rank, step) * 2**20),
                    "steps": step,
                    "epoch": 1 + step // epoch if epoch else None,
                }
                for rank in (0, 1)
            }
            line = {
                "schema": "keepstep.metrics/1",
                "at": 1e9 + step * step_s,
                "memory": {"total": 64 << 30, "available": left},
                "ranks": ranks,
            }
            out.write(json.dumps(line) + "\n")
        out.write(json.dumps(line)[:40])


def test_memory_of_one_rank_that_was_measured_to_rise_is_a_leak(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + rank * step * 2, epoch=None)
    (found,) = findings(tmp_path, rank0=STEPS, rank1=STEPS)
    assert (found.cause.value, found.ranks, found.severity.value) == ("resource.memory_leak", (1,), "warning")
    assert "2.1 MB per step, and no other rank's memory did" in found.because


def test_memory_of_all_ranks_that_rises_on_after_the_first_epoch_is_a_leak(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + step * 2)
    (found,) = findings(tmp_path, rank0=STEPS)
    assert (found.cause.value, found.ranks) == ("resource.memory_leak", (0, 1))
    assert "after the first" in found.because


def test_memory_of_all_ranks_that_rises_may_be_a_cache_where_epochs_are_unknown(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + step * 2, epoch=None, step_s=10.0)
    assert findings(tmp_path, rank0=STEPS) == ()


def test_memory_of_all_ranks_that_rises_is_told_when_it_will_be_full_soon(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + step * 2, epoch=None, step_s=10.0, left=1 << 30)
    (found,) = findings(tmp_path, rank0=STEPS)
    assert "the rest lasts" in found.because


def test_memory_that_rose_until_the_kernel_killed_is_what_began_it(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + step * 2, epoch=None)
    oom = "[123.4] Out of memory: Killed process 4433 (python) total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB\n"
    found = findings(tmp_path, rank0=STEPS, kernel=oom)
    assert [each.cause.value for each in found][:2] == ["resource.memory_leak", "resource.host_oom_killed"]
    assert found[0].severity.value == "fatal"


def test_a_kill_while_there_was_much_memory_left_has_nothing_to_do_with_what_rose(tmp_path):
    measured(tmp_path, lambda rank, step: 400 + rank * step * 2)
    found = findings(tmp_path, rank0=STEPS, rank1=STEPS + "Killed\n")
    assert found[0].cause.value != "resource.memory_leak"
    assert "resource.memory_leak" in {each.cause.value for each in found if each.severity.value == "warning"}


def test_no_space_where_python_shares_memory_is_not_the_disk(tmp_path):
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 9, in <module>\n    queue = Array("d", 10**9)\n'
        '  File "/usr/lib/python3.8/multiprocessing/heap.py", line 77, in __init__\n    os.ftruncate(self.fd, size)\n'
        "OSError: [Errno 28] No space left on device\n"
    )
    assert root(tmp_path, log=text) == "resource.shm"


ACTOR_KILLED = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker"
    " unexpectedly exits with a connection error code 2. End of file.\n"
)
WAITED = (
    "[rank9]:[E416 13:21:26.967 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=76, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600089 milliseconds\n"
)


def test_a_wait_that_ended_after_the_kill_was_a_wait_for_the_killed(tmp_path):
    found = findings(tmp_path, run=ACTOR_KILLED + WAITED)
    assert (found[0].rule, found[0].confidence.value) == ("RES003", "supported")


def test_a_worker_that_fell_after_the_wait_ended_was_not_what_they_waited_for(tmp_path):
    found = {f.rule: f.confidence.value for f in findings(tmp_path, run=WAITED + ACTOR_KILLED)}
    assert found.get("RES003") != "supported"


H200_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.66 GiB. GPU 0 has a total capacity of 139.80 GiB "
    "of which 134.82 GiB is free. Including non-PyTorch memory, this process has 4.97 GiB memory in use. 6.00 GiB "
    "allowed; Of the allocated memory 4.24 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but "
    "unallocated.\n"
)
"""PyTorch 2.11 on an H200, with set_per_process_memory_fraction."""


def forecast(low: float, high: float, tensors: float) -> str:
    fact = DeviceMemoryForecast(
        device="NVIDIA H200",
        total=150 << 30,
        low=int(low * (1 << 30)),
        high=int(high * (1 << 30)),
        allocated=int(tensors * (1 << 30)),
        parts=(("parameters", 1 << 30), ("activations", 2 << 30)),
        earlier=True,
    )
    return json.dumps(to_dict(Evidence(fact=fact, origin=Origin(source="train.py")))) + "\n"


@pytest.mark.parametrize(
    ("low", "high", "tensors", "says"),
    [
        (
            4.0, 4.5, 3.5,
            "the forecast was 4.00 to 4.50 GiB: tensors needed at least 4.40 GiB more than the 3.50 GiB in it",
        ),
        (
            8.5, 9.5, 8.0,
            "the forecast was 8.50 to 9.50 GiB, more than these 6.00 GiB: tensors needed 0.10 GiB less than the 8.00 "
            "GiB in it until then",
        ),
    ],
)  # fmt: skip
def test_a_forecast_made_before_is_set_beside_what_ran_out(tmp_path, low, high, tensors, says):
    (tmp_path / "memory-forecast.jsonl").write_text(forecast(low, high, tensors))
    (found,) = findings(tmp_path, rank0=STEPS + H200_OOM)
    assert (found.rule, found.ranks) == ("RES001", (0,))
    assert found.because.endswith(f"; {says}; its largest part is activations, 2.00 GiB")
    assert any("did not see" in fix.do for fix in found.fixes) is (tensors < 7.9)


def test_gaps_and_other_processes_are_named_where_tensors_are_within_the_forecast(tmp_path):
    (tmp_path / "memory-forecast.jsonl").write_text(forecast(70, 75, 68))
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 "
        "GiB of which 1.06 GiB is free. Of the allocated memory 50.20 GiB is allocated by PyTorch\n"
    )
    (found,) = findings(tmp_path, rank1=STEPS + oom)
    assert "15.80 GiB less than the 68.00 GiB in it until then, so other processes or gaps" in found.because


def test_a_forecast_made_before_is_no_finding_of_a_run_that_went_well(tmp_path):
    (tmp_path / "memory-forecast.jsonl").write_text(forecast(200, 210, 190))
    assert findings(tmp_path, rank0=STEPS) == ()
