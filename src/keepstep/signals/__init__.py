# SPDX-License-Identifier: Apache-2.0
"""What boxes, stacks, hashes and clocks of single ranks mean. Pure."""
