# SPDX-License-Identifier: Apache-2.0
"""What rules of several families ask of the evidence: crashes, exceptions, contracts, arrivals."""
