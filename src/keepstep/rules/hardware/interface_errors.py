# SPDX-License-Identifier: Apache-2.0
"""HWD103: a network interface counts errors."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, InterfaceCounters, Safety, Severity, rule

MANY_NOW = 3
"""Errors during the check,"""
SHARE = 1e-5
"""or this share of all packets since the interface came up, with at least:"""
MANY = 1000
DROPPED_SHARE = 0.05
DROPPED = 500


@rule(id="HWD103", cause=Cause.HARDWARE_NIC_FAULT, needs=(InterfaceCounters,), severity=Severity.WARNING)
def interface_errors(seen: EvidenceSet) -> Findings:
    """A network interface counts damaged or lost packets.

    ## What it looks like
    Collectives that are sometimes slow, retransmissions, timeouts under load.

    ## Why it happens
    A failing cable, transceiver or switch port, a wrong duplex setting, or a network card whose queues overflow.

    ## How we know
    The driver's own counters rose while the check sent packets, or exceed 1 in 100,000 packets since the interface came
    up.

    ## What to do
    Look at the individual counters; replace the cable or transceiver, or raise the ring size for overflows.

    ## When this is wrong
    Errors of a fault that has been repaired stay in the counters until the host is restarted.
    """
    for each in seen.all(InterfaceCounters):
        fact = each.fact
        now = fact.errors_now >= MANY_NOW
        ever = fact.errors >= MANY and fact.errors > SHARE * fact.packets
        overflow = fact.dropped_now >= DROPPED and fact.dropped_now > DROPPED_SHARE * fact.packets_now
        if not (now or ever or overflow):
            continue
        if now:
            counted = f"had {fact.errors_now} errors in {fact.packets_now:,} packets during the check"
        elif overflow:
            counted = f"dropped {fact.dropped_now} of {fact.packets_now:,} packets during the check"
        else:
            counted = f"has had {fact.errors:,} errors in {fact.packets:,} packets"
        kinds = f" ({fact.kinds})" if fact.kinds else ""
        yield Found(
            title=f"{fact.interface} of {fact.host} {counted}",
            because=f"the driver counts them{kinds}: the cable, transceiver, port or network card is faulty",
            evidence=(each,),
            fixes=(
                Fix(
                    do="check which counters rise",
                    command=f"ethtool -S {fact.interface} | grep -iE 'err|drop|crc|miss' | grep -v ': 0'",
                ),
                Fix(
                    do="for overflows, use larger rings",
                    command=f"ethtool -G {fact.interface} rx 4096",
                    safety=Safety.NEEDS_OWNER,
                ),
            ),
        )
