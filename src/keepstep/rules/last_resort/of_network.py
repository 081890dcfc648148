# SPDX-License-Identifier: Apache-2.0
"""Words about the network between the ranks."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.rules.last_resort.row import row

OF_NETWORK = (
    row(
        Cause.NETWORK_PORT_IN_USE,
        "a port that is in use",
        w3=r"""
            address already in use|\bEADDRINUSE\b|errno:? 98\b
              |port (?:\d+ )?(?:is )?(?:already )?(?:in use|taken|occupied|used)
            (?:failed|unable|cannot|could not) to (?:bind|listen)\b.{0,80}\bport|could not start grpc server
              |no address added out of total
        """,
        w1=r"\bbind(?:ing)?\b",
    ),
    row(
        Cause.NETWORK_DNS,
        "a host name that cannot be resolved",
        w3=r"""
            name or service not known|temporary failure in name resolution|\bgetaddrinfo\b|\bgaierror\b
              |no address associated with hostname|nodename nor servname
            (?:dns|name|host(?:name)?) (?:resolution|lookup)\b.{0,40}\b(?:fail|error)
              |(?:could not|cannot|can't|unable to|failed to) (?:resolve|look ?up|find address)(?!.{0,60}\b(?:modules?
              |imports?|types?|class|dependenc\w+|references?|conflicts?|offset|process group)\b)
            \b(?:unknown|unresolvable|invalid) host(?:name)?\b
              |hostname .{0,60}(?:not found|not resolved|cannot be|could not be)|host not found|\bNXDOMAIN\b
              |C-ares status
        """,
        w1=r"\bDNS\b|\bresolv(?:e|er|ing)\b",
    ),
    row(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        "hosts that cannot reach each other",
        w3=r"""
            permission denied \(publickey|ssh exited with exit code 255|host key verification failed
              |not reachable via ssh|\bssh\b.{0,80}\b(?:status|code) 255\b
            no route to host|(?:network|host) is unreachable|\bE(?:HOSTUNREACH|NETUNREACH)\b|connection refused
              |\bECONNREFUSED\b
            failed to connect to (?:all addresses|remote host|remote server|server|the (?:master|coordinator|store
              |leader)|any of)
            (?:unable|failed|could not|cannot) to connect|could not connect|unable to (?:reach|contact|communicate)
              |NoValidAddressesFound|cannot (?:reach|connect|be reached)
            \btrying to connect\b.{0,60}|connect(?:ion)? (?:to .{1,80} )?(?:timed[ -]out|timeout)|\bfirewall\b
              |CreateSession still waiting
            still waiting for response from worker
        """,
        w2=r"""
            not reachable|(?<!be )unreachable(?!d? code|!)|(?:check|verify) (?:the )?(?:network )?connectivity
              |timed out waiting for (?:tasks|processes|workers|nodes|hosts) to (?:start|connect|join)
              |\bconnect(?:ing)?\b.{0,60}\b(?:fail\w*|timed? ?-?out|refused)
            failed to pick subchannel|socket has timed out|connection attempts? failed
              |daemons?\b.{0,60}\b(?:unable|failed|not)\b
            \b(?:rendezvous|store|barrier)\b.{0,60}\b(?:connect\w*)\b
        """,
        w1=r"\b(?:socket|connect(?:ion)?|address|endpoint)\b",
    ),
    row(
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        "a lost peer",
        w3=r"""
            connection (?:was )?(?:reset|closed|aborted) by|reset by peer|broken pipe|\bE(?:CONNRESET|PIPE)\b
              |socket closed|peer (?:closed|died|lost|disconnected|gone)
            remote process (?:has )?(?:exited|died|terminated)|failure of the peer|connection (?:lost|closed)
              |lost (?:the )?connection|closed the connection|remote end closed
            another (?:task|process|rank|worker) (?:has )?(?:died|failed|exited)|heartbeat (?:timeout|missed)
              |missing heartbeats?|endpoint read failed|errno:? (?:32|104)\b
        """,
        w2=r"""
            (?<!is )\bUnavailable(?:Error)?\b(?! because)|\bpeers?\b.{0,40}\b(?:fail\w*|lost|dead|gone|exited)\b
              |worker (?:\w+ )?(?:died|lost|gone|disconnected)
        """,
    ),
    row(
        Cause.NETWORK_TIMEOUT_SLOW,
        "a network timeout",
        w2=r"""
            deadline[ _]exceeded|operation timed out|\bETIMEDOUT\b|errno:? 110\b|connection timed out
              |RPC.{0,80}tim(?:ed|e)[ -]?out|read timed out
        """,
        w1=r"\btim(?:ed|e)[ -]?out\b",
    ),
    row(
        Cause.NETWORK_WRONG_INTERFACE,
        "a wrong network interface",
        w3=r"""
            no (?:socket |network |usable |suitable )?interfaces? (?:was |were )?found
              |unable to find (?:address|interface|a set of common)|cannot assign requested address|\bEADDRNOTAVAIL\b
            (?:invalid|unknown|no such|wrong) (?:network )?(?:interface|device)\b.{0,40}(?:eth|en\w|ib|lo|docker
              |\w*IFNAME)|(?<![A-Z])[A-Z]+_SOCKET_IFNAME|btl_tcp_if|oob_tcp_if
            common .{0,30}interfaces|IFNAME
        """,
        w2=r"\binterfaces?\b.{0,60}\b(?:not|no|fail\w*|invalid|unable)\b|docker0|virbr0",
    ),
    row(
        Cause.NETWORK_RDMA_IB,
        "trouble with RDMA or InfiniBand",
        w3=r"""
            \bibv_\w+|\bmlx[45]_?\w*|\bNET/(?:IB|OFI)\b|\brdma\w*|\binfiniband\b|\bverbs\b|\bucx\b|\bUCX\b|\bucp_\w+
              |\bucs_\w+|\buct_\w+|\bOFI\b|libfabric|\bfi_\w+\(|\bEFA\b|\bRoCE\w*
            \bopenib\b|\bGID\b|\bIB_\w+|\bnv_peer_mem\b|\bnvidia_peermem\b|\bGDR(?:DMA|copy)?\b|queue pair|\bQP\d*\b
              |completion with (?:error|status)|vendor err
            transport retry (?:count|counter) exceeded|work completion|memory registration|\bmemlock\b
              |\bsharp\w*\b.{0,40}(?:fail|error)|\bpsm2?\b|\bHFI\b|\bhcoll\b
        """,
    ),
    row(
        Cause.NETWORK_MTU,
        "a wrong packet size (MTU)",
        w3=r"\bMTU\b|message too long|\bEMSGSIZE\b|fragmentation needed|jumbo frame",
    ),
)
