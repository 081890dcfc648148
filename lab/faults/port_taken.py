"""Another program already listens on the port of rank 0 (torch, TensorFlow) or of the coordinator (JAX)."""

import socket

from lab.launch import Run


def prepare(run: Run) -> None:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        taken = run.stack.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((address, run.ports[0]))
        taken.listen()
