# SPDX-License-Identifier: Apache-2.0
"""What carries bytes between hosts: sockets, gRPC, gloo, InfiniBand."""
