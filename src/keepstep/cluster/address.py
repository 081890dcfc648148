# SPDX-License-Identifier: Apache-2.0
"""``host:port``: as people write it, and as it should be."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from keepstep.model.facts.cluster import Fault

LONGEST = 300
DEFAULT_PORT = 2222
_NAME = re.compile(r"^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?$")


@dataclass(frozen=True)
class Address:
    """What an address says; ``fault`` and ``better`` where it is not as it should be."""

    host: str | None = None
    port: int | None = None
    fault: Fault | None = None
    better: str | None = None


def read_address(text: str, default_port: int = DEFAULT_PORT) -> Address:
    """Take ``text`` apart. IPv6 addresses stand in brackets when a port follows."""
    text = text.strip()
    if len(text) > LONGEST:
        return Address(fault=Fault.ADDRESS_MALFORMED)
    scheme = re.match(r"^[A-Za-z][A-Za-z0-9+.-]*:/{1,3}", text)
    if scheme:
        inner = read_address(text[scheme.end() :].partition("/")[0], default_port)
        return Address(inner.host, inner.port, Fault.SCHEME_IN_ADDRESS, inner.better or joined(inner.host, inner.port))
    if _is_ip(text, 6):
        return Address(text, None, Fault.ADDRESS_WITHOUT_PORT, f"[{text}]:{default_port}")
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host = text
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not _is_host(bare, bracketed=bare is not host):
        return Address(fault=Fault.ADDRESS_MALFORMED)
    if not colon or not port:
        return Address(bare, None, Fault.ADDRESS_WITHOUT_PORT, joined(bare, default_port))
    if not re.fullmatch(r"[0-9]{1,9}", port):
        return Address(bare, None, Fault.ADDRESS_MALFORMED, joined(bare, default_port))
    if not 0 < int(port) < 65536:
        return Address(bare, None, Fault.PORT_OUT_OF_RANGE, joined(bare, default_port))
    return Address(bare, int(port))


def joined(host: str | None, port: int | None) -> str | None:
    """``host:port`` with IPv6 in brackets."""
    if host is None or port is None:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host means the host itself: loopback, wildcard or link-local."""
    if host.lower().rstrip(".") in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified or mapped.is_link_local)


def _is_host(text: str, bracketed: bool) -> bool:
    if bracketed:
        return _is_ip(text, 6)
    return ":" not in text and (bool(_NAME.match(text)) or _is_ip(text, 4))


def _is_ip(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text.partition("%")[0]).version == version
    except ValueError:
        return False
