# SPDX-License-Identifier: Apache-2.0
"""This host: its hardware, software, processes, ports and kernel log."""
