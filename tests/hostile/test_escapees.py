# SPDX-License-Identifier: Apache-2.0
"""A process that left its session, lost its parent and wiped its environment does not outlive its run, if control
groups may be made."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from keepstep.supervise.start import control_group, reaper
from tests.supervise.starting import Running, wait_for
from tests.supervise.test_run_ends import alive, pids_in

ESCAPES = """
import os, sys, time
rank = os.environ["RANK"]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    code = "import os, time; open('.pid', 'w').write(str(os.getpid()))"
    code += f"; os.rename('.pid', 'pid-{rank}'); time.sleep(600)"
    os.execve(sys.executable, [sys.executable, "-c", code], {})
while not os.path.exists(f"pid-{rank}"): time.sleep(0.01)
"""
"""The classic way to become a daemon, with a clean environment on top."""


def can_make_groups() -> bool:
    group = control_group.make()
    if group is None:
        return False
    reaper.remove_group(group)
    return not group.exists()


needs_groups = pytest.mark.skipif(
    not can_make_groups(), reason="needs a control group that this user may make groups in"
)


def groups() -> list[Path]:
    return [path for parent in control_group._own_groups() for path in parent.glob("keepstep-*")]


@needs_groups
def test_it_does_not_survive_a_killed_supervisor(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "1", script=ESCAPES + "time.sleep(600)\n")
    (pid,) = wait_for(lambda: pids_in(tmp_path))
    assert alive(pid)
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), 30.0)
    run.kill()
    wait_for(lambda: not any(f"keepstep-{run.process.pid}-" in path.name for path in groups()), 30.0)


@needs_groups
def test_it_does_not_survive_the_end_of_the_run(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "1", script=ESCAPES)
    assert run.finish() == 0
    (pid,) = pids_in(tmp_path)
    assert not alive(pid)
    assert not any(f"keepstep-{run.process.pid}-" in path.name for path in groups())


def test_a_run_does_without_a_group_where_it_is_told_to(tmp_path: Path) -> None:
    run = Running(tmp_path, "-n", "1", script="print(open('/proc/self/cgroup').read())", env={"KEEPSTEP_CGROUP": "off"})
    assert run.finish() == 0
    assert "keepstep-" not in run.log(0)
    assert control_group.make({"KEEPSTEP_CGROUP": "off"}) is None


@needs_groups
def test_what_killed_supervisors_left_is_removed_and_what_is_in_use_is_not() -> None:
    group = control_group.make()
    assert group is not None
    used, empty = group.with_name("keepstep-999999998-1"), group.with_name("keepstep-999999999-1")
    used.mkdir()
    with control_group.inside(used):
        process = subprocess.Popen(["sleep", "600"])
    try:
        (empty / "below").mkdir(parents=True)
        control_group._remove_left(group.parent)
        assert group.exists() and used.exists() and not empty.exists()
        assert reaper.in_group(used) == {process.pid}
    finally:
        process.kill()
        process.wait()
        reaper.remove_group(group)
        wait_for(lambda: reaper.remove_group(used) or not used.exists(), 10.0)


@needs_groups
def test_nothing_is_quick_enough_to_leave_before_it_is_in() -> None:
    group = control_group.make()
    assert group is not None
    try:
        for _ in range(30):
            with control_group.inside(group):
                process = subprocess.Popen(["bash", "-c", "(setsid env -i sleep 611 &); true"], start_new_session=True)
            process.wait()
        assert len(reaper.in_group(group)) == 30
        assert os.getpid() not in reaper.in_group(group)
    finally:
        assert reaper.kill_all("no-such-token", {}, group=group)
        wait_for(lambda: reaper.remove_group(group) or not group.exists(), 10.0)


def test_hierarchies_are_told_from_what_the_kernel_lists() -> None:
    text = (
        "33 25 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "39 33 0:36 /docker/abc /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
        "43 33 0:40 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
        "damaged\n"
    )
    assert list(control_group._mounts(text)) == [
        ("cgroup", ["rw", "freezer"], "/docker/abc", Path("/sys/fs/cgroup/freezer")),
        ("cgroup2", ["rw"], "/", Path("/sys/fs/cgroup/unified")),
    ]
