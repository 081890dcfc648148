# SPDX-License-Identifier: Apache-2.0
"""Causes between hosts: addresses, names, ports, interfaces, fabrics."""
