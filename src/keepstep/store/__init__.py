# SPDX-License-Identifier: Apache-2.0
"""The run folder: what a run records about itself."""
