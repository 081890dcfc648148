# SPDX-License-Identifier: Apache-2.0
"""What a rank is fed: compared with a contract, and with what the other ranks are fed."""
