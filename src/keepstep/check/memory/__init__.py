# SPDX-License-Identifier: Apache-2.0
"""`keepstep check memory`: whether a training script fits into a device, without the device."""
