# SPDX-License-Identifier: Apache-2.0
"""Devices, links and machines that failed."""
