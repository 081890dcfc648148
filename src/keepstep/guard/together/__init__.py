# SPDX-License-Identifier: Apache-2.0
"""What all ranks do together or not at all: skip a step, try again, stop, save, pause. Somebody asks for it."""
