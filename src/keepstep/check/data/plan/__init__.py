# SPDX-License-Identifier: Apache-2.0
"""Which rank would get which records, as each loader divides them."""
