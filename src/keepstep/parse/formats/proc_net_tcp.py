# SPDX-License-Identifier: Apache-2.0
"""The kernel's table of TCP sockets (``/proc/PID/net/tcp`` and ``tcp6``): which of them get no answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Set

from keepstep.model.facts.network import ConnectionStuck

_ESTABLISHED, _SYN_SENT = "01", "02"
_RETRANSMITTING = "01"
TRIES = 2
"""One retransmission is normal; two in a row are not."""


def stuck_connections(table: str, inodes: Set[int]) -> Iterator[ConnectionStuck]:
    """The sockets among ``inodes`` that wait for an answer and keep retransmitting."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) < 10 or words[3] not in (_ESTABLISHED, _SYN_SENT):
            continue
        try:
            timer, tries, inode = words[5].partition(":")[0], int(words[6], 16), int(words[9])
            unsent = int(words[4].partition(":")[0], 16)
            peer, port = _address(words[2])
        except ValueError:
            continue
        if inode not in inodes or timer != _RETRANSMITTING or tries < TRIES or ipaddress.ip_address(peer).is_loopback:
            continue
        yield ConnectionStuck(
            peer=f"[{peer}]:{port}" if ":" in peer else f"{peer}:{port}",
            connecting=words[3] == _SYN_SENT,
            unsent=unsent,
            tries=tries,
        )


def _address(text: str) -> tuple[str, int]:
    """``0100007F:1F90`` as the kernel prints it: words of four bytes, each in the host's (little) order."""
    words, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(words[n : n + 8])[::-1] for n in range(0, len(words), 8))
    found = ipaddress.ip_address(packed)
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found), int(port, 16)
