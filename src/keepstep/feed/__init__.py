# SPDX-License-Identifier: Apache-2.0
"""The right way to divide data among ranks: ``keepstep.shard(...)``. Imports no framework by itself."""
