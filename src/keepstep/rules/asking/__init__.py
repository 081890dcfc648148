# SPDX-License-Identifier: Apache-2.0
"""Questions that rules of several families ask about the evidence: crashes, exceptions, contracts, arrivals."""
