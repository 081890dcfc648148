# SPDX-License-Identifier: Apache-2.0
"""Kubernetes, containers, and the clouds' managed training."""
