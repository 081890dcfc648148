# SPDX-License-Identifier: Apache-2.0
"""The interpreter: imports, versions, arguments, child processes."""
