# SPDX-License-Identifier: Apache-2.0
"""TPUs: libtpu, Cloud TPU, and the programs that run there."""
