# SPDX-License-Identifier: Apache-2.0
"""`keepstep check gpu`: whether each GPU, and the host's memory, computes and keeps what it is given.

``look.py`` starts one child process per device (``children.py``) and makes facts of what they say. A child runs
``exercise.py`` with the user's own framework (``torch_device.py``, ``jax_device.py``), or ``host_memory.py``. No answer
comes from the device itself: ``known_answers.py`` has them, from Python's own integers.
"""
