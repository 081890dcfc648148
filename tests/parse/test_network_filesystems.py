# SPDX-License-Identifier: Apache-2.0
"""Network file systems that stopped answering, by the kernel's log, and mounts without locks."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import UnsupportedCombination
from keepstep.core.facts.training import SlowStorage
from keepstep.parse.tools.system import network_filesystems as table


@pytest.mark.parametrize(
    "text",
    [
        "LustreError: 167-0: scratch-OST0003-osc-ffff: This client was evicted by scratch-OST0003; in progress operations using"
        " this service will fail.",
        "Lustre: scratch-MDT0000-mdc-ffff: Connection to scratch-MDT0000 (at 10.0.0.4@o2ib) was lost; in progress operations using"
        " this service will wait for recovery to complete",
        "LustreError: 11-0: scratch-OST0003-osc-ffff8: operation ost_read to node 10.0.0.4@o2ib failed: rc = -107",
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown",
        "ceph: mds0 hung",
        "CIFS: VFS: \\\\nas has not responded in 180 seconds. Reconnecting...",
    ],
)
def test_a_file_system_that_does_not_answer_is_told(text, read, holds):
    assert holds(read(table, text), SlowStorage)


@pytest.mark.parametrize(
    "text",
    [
        'ValueError: FAILED_PRECONDITION: Error writing local file "/h/p.tmp/_sharding": Failed to acquire lock on file:'
        " /h/p.tmp/_sharding.__lock [OS error: Function not implemented] [source locations='tensorstore/kvstore/kvstore.cc:268']",
        "Failed to lock file [OS error: No locks available]",
        "File locking failed in ADIOI_Set_lock(fd 4,cmd F_SETLKW/7,type F_RDLCK/0,whence 0) with return value FFFFFFFF and errno 26.",
    ],
)
def test_a_mount_that_knows_no_locks_is_told(text, read, holds):
    assert holds(read(table, text), UnsupportedCombination)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to acquire lock on file .lock in /var/kafka. Another process is using this directory.",
        "Lustre: scratch-OST0003-osc-ffff: Connection restored to 10.0.0.4@o2ib (at 10.0.0.4@o2ib)",
        "Lustre: Mounted scratch-client",
        "ceph: mds0 reconnect success",
    ],
)
def test_ordinary_words_say_nothing(text, read):
    assert read(table, text) == []
