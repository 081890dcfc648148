# SPDX-License-Identifier: Apache-2.0
"""JAX and what is built on it."""
