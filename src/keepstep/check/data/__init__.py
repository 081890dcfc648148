# SPDX-License-Identifier: Apache-2.0
"""`keepstep check data`: what is in data files, and what each rank would be fed."""
