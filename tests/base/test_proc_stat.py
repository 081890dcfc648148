# SPDX-License-Identifier: Apache-2.0
"""The kernel's list of processes, on real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from keepstep.base.proc_stat import all_processes, family, read_stat, with_descendants

NAMED = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) Z 1 (b', 0, 0, 0); print(flush=True); time.sleep(60)"


def test_a_process_whose_name_looks_like_the_rest_of_the_line_is_read_all_the_same() -> None:
    with subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        seen = read_stat(child.pid)
        child.kill()
    assert seen is not None and seen.lives and seen.parent == os.getpid() and seen.session == os.getsid(0)
    began = seen.began()
    assert began is not None and abs(began - time.time()) < 60.0


def test_one_that_has_ended_does_not_live_and_tells_how_it_ended_until_its_parent_asks() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import os; os._exit(3)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    seen = read_stat(child.pid)
    assert seen is not None and not seen.lives and seen.wait_status == 3 << 8
    child.wait()
    assert read_stat(child.pid) is None


def test_a_thread_has_a_state_of_its_own() -> None:
    seen = read_stat(thread=threading.get_native_id())
    assert seen is not None and seen.state == "R"


def test_descendants_are_found_also_below_a_child() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'print(flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        found = [family(listed, [child.pid]) for listed in (with_descendants([child.pid]), all_processes())]
        child.communicate(b"\n")
    assert found[0] == found[1] and len(found[0]) == 2 and child.pid in found[0]
