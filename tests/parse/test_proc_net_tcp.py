# SPDX-License-Identifier: Apache-2.0
"""The kernel's table of TCP sockets."""

from __future__ import annotations

import pytest

from keepstep.model.facts.network import ConnectionStuck
from keepstep.parse.formats.proc_net_tcp import stuck_connections

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
CONNECTING = (
    "   0: 020012C6:D2F0 010012C6:A2B3 02 00000001:00000000 01:00000064 00000003     0        0 4711 2 0 100 0\n"
)
SENDING = "   1: 020012C6:D2F0 010012C6:A2B3 01 00002100:00000000 01:00000064 00000005     0        0 4711 2 0 100 0\n"
IDLE = "   2: 020012C6:D2F0 010012C6:A2B3 01 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 100 0\n"
ONCE = "   3: 020012C6:D2F0 010012C6:A2B3 01 00000100:00000000 01:00000064 00000001     0        0 4711 2 0 100 0\n"
FULL = "   4: 020012C6:D2F0 010012C6:A2B3 01 00001000:00000000 04:00000064 00000006     0        0 4711 2 0 100 0\n"
MAPPED = (
    "   5: 0000000000000000FFFF0000020012C6:D2F0 0000000000000000FFFF0000010012C6:A2B3 01 00000007:00000000"
    " 01:00000064 00000004     0        0 4711 2 0 100 0\n"
)


def test_an_attempt_that_nobody_answers_is_told_with_its_peer():
    (found,) = stuck_connections(HEAD + CONNECTING, {4711})
    assert found == ConnectionStuck(peer="198.18.0.1:41651", tries=3, connecting=True, unsent=1)


def test_bytes_that_are_sent_again_and_again_are_told():
    (found,) = stuck_connections(HEAD + SENDING, {4711})
    assert (found.connecting, found.tries, found.unsent) == (False, 5, 0x2100)


def test_an_address_of_version_4_in_the_table_of_version_6_is_read():
    (found,) = stuck_connections(HEAD + MAPPED, {4711})
    assert found.peer == "198.18.0.1:41651"


@pytest.mark.parametrize("line", [IDLE, ONCE, FULL, "   6: broken\n", ""])
def test_what_is_idle_or_waits_for_the_peers_reader_is_not_stuck(line):
    assert list(stuck_connections(HEAD + line, {4711})) == []


def test_a_damaged_row_is_passed_over():
    damaged = SENDING.replace("00002100:00000000", "0000210Z:00000000")
    (found,) = stuck_connections(HEAD + damaged + CONNECTING, {4711})
    assert found.connecting


def test_sockets_of_other_processes_are_left_out():
    assert list(stuck_connections(HEAD + SENDING, {1})) == []


def test_the_loopback_loses_nothing():
    line = SENDING.replace("010012C6", "0100007F")
    assert list(stuck_connections(HEAD + line, {4711})) == []
