# SPDX-License-Identifier: Apache-2.0
"""The guard's hooks in JAX. `attach.py` puts them in place."""
