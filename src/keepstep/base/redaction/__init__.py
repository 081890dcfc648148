# SPDX-License-Identifier: Apache-2.0
"""What :mod:`keepstep.base.redact` knows about secrets: their shapes, their names and their places."""
