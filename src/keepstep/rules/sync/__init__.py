# SPDX-License-Identifier: Apache-2.0
"""Causes between ranks: collectives, barriers, replicas."""
