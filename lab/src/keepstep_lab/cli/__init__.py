# SPDX-License-Identifier: Apache-2.0
"""The command line of the lab: ``keepstep lab`` and what is below it."""
