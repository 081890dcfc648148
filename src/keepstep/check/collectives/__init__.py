# SPDX-License-Identifier: Apache-2.0
"""`keepstep check collectives`: whether the framework's own collectives are right here, and how fast they are."""
