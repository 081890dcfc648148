# SPDX-License-Identifier: Apache-2.0
"""Libraries that run the training loop, and services beside it."""
