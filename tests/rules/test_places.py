# SPDX-License-Identifier: Apache-2.0
"""Every rank prints the same time-out; their tracebacks and stacks show that they were not at the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.model.finding import Confidence, Finding
from tests.rules.explained import findings

SITE = "/opt/venv/lib/python3.11/site-packages"
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp"
TIMED_OUT = f"{GLOO}/unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation to complete"
LOST = f"{GLOO}/pair.cc:534] Connection closed by peer [10.0.0.7]:25217"

At = tuple[str, str, int, str]
EVALUATES: At = ("all_gather", "/job/evaluate.py", 40, "evaluate")
TRAINS: At = ("all_reduce", "/job/train.py", 88, "step")
ALSO_REDUCES: At = ("all_reduce", "/job/evaluate.py", 44, "evaluate")
READS: At = ("", "/job/data.py", 12, "read")


def raised(at: At, message: str = TIMED_OUT) -> str:
    """A traceback as Python prints it."""
    op, file, line, function = at
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 120, in <module>',
        "    main()",
        f'  File "{file}", line {line}, in {function}',
        f"    dist.{op}(x)" if op else "    f.read()",
    ]
    if op:
        lines += [
            f'  File "{SITE}/torch/distributed/c10d_logger.py", line 83, in wrapper',
            "    return func(*args, **kwargs)",
            f'  File "{SITE}/torch/distributed/distributed_c10d.py", line 3252, in {op}',
            "    work.wait()",
        ]
    return "\n".join([*lines, message, ""])


def stack(at: At, head: str = "Timeout (0:05:00)!") -> str:
    """What faulthandler prints."""
    op, file, line, function = at
    lines = [head, "Thread 0x00007f0f7c9d8740 (most recent call first):"]
    if op:
        lines += [
            f'  File "{SITE}/torch/distributed/distributed_c10d.py", line 3252 in {op}',
            f'  File "{SITE}/torch/distributed/c10d_logger.py", line 83 in wrapper',
        ]
    lines += [f'  File "{file}", line {line} in {function}', '  File "/job/train.py", line 120 in <module>', ""]
    return "\n".join(lines)


def spied(at: At) -> str:
    """What py-spy dump prints."""
    op, file, line, function = at
    lines = ["Process 4711: python train.py", "Python v3.11.9 (/opt/venv/bin/python3.11)", ""]
    lines += ['Thread 4711 (idle): "MainThread"']
    if op:
        lines += [
            f"    {op} (torch/distributed/distributed_c10d.py:3252)",
            "    wrapper (torch/distributed/c10d_logger.py:83)",
        ]
    return "\n".join([*lines, f"    {function} ({file.rpartition('/')[2]}:{line})", "    <module> (train.py:120)", ""])


def watchdog(rank: int, op: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E1114 10:22:01.000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=100, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600010 milliseconds before timing out.\n"
    )


def explained(folder: Path, *logs: str) -> Finding:
    return findings(folder, **{f"rank{rank}": text for rank, text in enumerate(logs)})[0]


def test_tracebacks_of_time_outs_in_two_collectives_are_a_mismatch(tmp_path: Path) -> None:
    found = explained(tmp_path, *[raised(EVALUATES)] * 7, raised(TRAINS))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (7,))
    assert found.confidence is Confidence.SUPPORTED
    assert "ranks 0-6 in all_gather at evaluate.py:40" in found.title
    assert "rank 7 in all_reduce at train.py:88" in found.title


def test_the_same_in_one_log_with_prefixes(tmp_path: Path) -> None:
    logs = [*[raised(EVALUATES)] * 3, raised(TRAINS)]
    run = "".join(f"[rank{rank}]: {line}\n" for rank, text in enumerate(logs) for line in text.splitlines())
    found = findings(tmp_path, run=run)[0]
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (3,))


def test_a_rank_that_loses_its_peer_was_waiting_too(tmp_path: Path) -> None:
    """The first that times out ends, so the others lose it."""
    found = explained(tmp_path, *[raised(EVALUATES, LOST)] * 3, raised(TRAINS))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (3,))


@pytest.mark.parametrize("shown", [stack, spied])
def test_stacks_in_two_collectives_are_a_mismatch(tmp_path: Path, shown) -> None:  # type: ignore[no-untyped-def]
    found = explained(tmp_path, *[shown(EVALUATES)] * 7, shown(TRAINS))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (7,))


def test_stacks_of_ranks_that_the_watchdog_aborted(tmp_path: Path) -> None:
    aborted = "Fatal Python error: Aborted\n"
    logs = [watchdog(rank) + stack(TRAINS if rank == 7 else EVALUATES, aborted) for rank in range(8)]
    found = explained(tmp_path, *logs)
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (7,))


def test_two_ranks_at_two_places_are_both_named(tmp_path: Path) -> None:
    found = explained(tmp_path, raised(EVALUATES), raised(TRAINS))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (0, 1))


def test_one_operation_in_two_functions_is_a_mismatch_too(tmp_path: Path) -> None:
    found = explained(tmp_path, *[raised(ALSO_REDUCES)] * 3, raised(TRAINS))
    assert (found.cause.value, found.ranks) == ("sync.collective_mismatch", (3,))


def test_the_two_ends_of_a_broadcast_need_not_be_at_one_line(tmp_path: Path) -> None:
    root, leaf = ("broadcast", "/job/train.py", 30, "setup"), ("broadcast", "/job/train.py", 33, "setup")
    found = findings(tmp_path, rank0=raised(root), rank1=raised(leaf), rank2=raised(leaf))
    assert "sync.collective_mismatch" not in [each.cause.value for each in found]


def test_send_and_recv_belong_to_pipelines_and_are_no_mismatch(tmp_path: Path) -> None:
    sends = ("send", "/job/pipe.py", 30, "forward")
    found = findings(tmp_path, rank0=raised(sends), rank1=raised(TRAINS), rank2=raised(TRAINS))
    assert "sync.collective_mismatch" not in [each.cause.value for each in found]


def test_a_rank_of_which_nothing_is_known_may_be_the_one_they_wait_for(tmp_path: Path) -> None:
    """Part of a tree passes a collective on before the others have it."""
    quiet = "Training in distributed mode with multiple processes. Process 2, total 4\nepoch 1\n"
    found = findings(tmp_path, rank0=raised(EVALUATES), rank1=raised(TRAINS), rank2=quiet, rank3=raised(TRAINS))
    assert found[0].cause.value != "sync.collective_mismatch"


def test_a_rank_with_an_exception_of_its_own_is_the_reason(tmp_path: Path) -> None:
    found = explained(tmp_path, raised(EVALUATES), raised(TRAINS), raised(READS, "KeyError: 'x'"))
    assert (found.cause.value, found.ranks) == ("user.code_exception", (2,))


def test_all_at_one_place_is_no_mismatch(tmp_path: Path) -> None:
    found = findings(tmp_path, **{f"rank{n}": raised(EVALUATES) for n in range(4)})
    assert "sync.collective_mismatch" not in [each.cause.value for each in found]


def test_a_rank_that_was_interrupted_outside_every_collective_was_waited_for(tmp_path: Path) -> None:
    found = explained(tmp_path, *[raised(EVALUATES)] * 3, raised(READS, "KeyboardInterrupt"))
    assert (found.cause.value, found.ranks) == ("sync.deadlock_or_hang_waiting_rank", (3,))
    assert "data.py:12" in found.title and "evaluate.py:40" in found.title


def test_a_stack_outside_every_collective_beside_time_outs(tmp_path: Path) -> None:
    found = explained(tmp_path, *[raised(EVALUATES)] * 3, stack(READS))
    assert (found.cause.value, found.ranks) == ("sync.deadlock_or_hang_waiting_rank", (3,))
    assert "data.py:12" in found.title


def test_ranks_that_a_person_interrupts_say_nothing_about_a_hang(tmp_path: Path) -> None:
    found = findings(tmp_path, rank0=raised(EVALUATES, "KeyboardInterrupt"), rank1=raised(TRAINS, "KeyboardInterrupt"))
    assert not [each for each in found if each.cause.value.startswith("sync.")]


def test_where_the_watchdogs_name_one_collective_the_hosts_may_only_be_further_on(tmp_path: Path) -> None:
    aborted = "Fatal Python error: Aborted\n"
    logs = [watchdog(rank) + stack(TRAINS if rank == 3 else ALSO_REDUCES, aborted) for rank in range(4)]
    found = explained(tmp_path, *logs)
    assert (found.cause.value, found.confidence) == ("sync.collective_mismatch", Confidence.HYPOTHESIS)


def backward(head: str = "Timeout (0:05:00)!") -> str:
    """A stack in the backward pass, where a rank computes or waits for gradients."""
    return "\n".join(
        [
            head,
            "Thread 0x00007f0f7c9d8740 (most recent call first):",
            f'  File "{SITE}/torch/autograd/graph.py", line 979 in _engine_run_backward',
            f'  File "{SITE}/torch/_tensor.py", line 623 in backward',
            '  File "/job/train.py", line 93 in main',
            '  File "/job/train.py", line 120 in <module>',
            "",
        ]
    )


def test_the_own_watchdog_of_each_rank_shows_two_places_even_in_backward(tmp_path: Path) -> None:
    step = "step 20 loss 2.2\n"
    logs = {f"rank{n}": step + backward() for n in (0, 1)}
    found = findings(tmp_path, **logs, rank2=step + stack(EVALUATES))
    assert (found[0].rule, found[0].ranks, found[0].confidence) == ("SYN071", (2,), Confidence.SUPPORTED), found[0]


def test_in_a_first_step_backward_may_only_be_slow(tmp_path: Path) -> None:
    logs = {f"rank{n}": backward() for n in (0, 1)}
    found = findings(tmp_path, **logs, rank2=stack(EVALUATES))
    assert all(each.rule != "SYN071" for each in found), found


def program(head: str = "Timeout (0:00:10)!") -> str:
    """A stack of a JAX process that waits for the result of its step."""
    return "\n".join(
        [
            head,
            "Thread 0x00007f0f7c9d8740 (most recent call first):",
            f'  File "{SITE}/jax/_src/array.py", line 632 in _value',
            f'  File "{SITE}/jax/_src/array.py", line 299 in __float__',
            '  File "/job/train.py", line 79 in main',
            '  File "/job/train.py", line 160 in <module>',
            "",
        ]
    )


def sync() -> str:
    """A stack of one that is in a barrier of JAX."""
    return (
        program()
        .replace(f'  File "{SITE}/jax/_src/array.py", line 632 in _value\n', "")
        .replace(
            f'{SITE}/jax/_src/array.py", line 299 in __float__',
            f'{SITE}/jax/experimental/multihost_utils.py", line 64 in sync_global_devices',
        )
    )


def test_a_jax_process_in_a_barrier_and_others_in_their_step_are_two_places(tmp_path: Path) -> None:
    step = "step 20 loss 2.2\n"
    logs = {f"rank{n}": step + program() for n in (0, 2, 3)}
    found = findings(tmp_path, **logs, rank1=step + sync())
    assert (found[0].rule, found[0].ranks, found[0].confidence) == ("SYN071", (1,), Confidence.HYPOTHESIS), found[0]


def test_jax_processes_that_wait_for_their_devices_at_two_lines_are_no_mismatch(tmp_path: Path) -> None:
    step = "step 20 loss 2.2\n"
    found = findings(tmp_path, rank0=step + program(), rank1=step + program().replace("79", "81"))
    assert all(each.rule != "SYN071" for each in found), found


def test_a_rank_that_crashes_while_its_watchdog_prints_its_stacks_was_stuck_before(tmp_path: Path) -> None:
    step, crash = "step 20 loss 2.2\n", "launcher: rank 0 pid 6606 exited with signal 11 (SIGSEGV)\n"
    logs = {f"rank{n}": step + backward() for n in (0, 1)}
    found = findings(tmp_path, **logs, rank2=step + stack(EVALUATES), launcher=crash)
    assert (found[0].rule, found[0].ranks) == ("SYN071", (2,)), found[0]
