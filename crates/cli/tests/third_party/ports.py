"""Ports for programs that are started later."""

import random
import socket

given = set()


def free_port():
    """A port of 127.0.0.1 at which nothing listens, each time another one, below those that the kernel gives to outgoing
    connections: one of these may be in use by the time a node listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        ephemeral = int(file.read().split()[0])
    while True:
        port = random.randrange(10000, ephemeral)
        if port in given:
            continue
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        given.add(port)
        return port
