"""Holds a lock with a Python client of etcd until standard input ends.

    hold.py CLIENT HOST:PORT NAME    with CLIENT etcd3, aetcd or etcd3gw

Prints "held" when it holds the lock.
"""

import asyncio
import os
import sys

# The generated code of etcd3 is older than today's protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

TTL = 3


def hold_with_etcd3(host, port, name):
    import etcd3

    lock = etcd3.client(host=host, port=port).lock(name, ttl=TTL)
    assert lock.acquire(timeout=None), "the lock was refused"
    assert lock.is_acquired(), "the key is another client's"
    print("held", flush=True)
    # The client does not renew by itself.
    wait_and(lambda: lock.refresh())
    assert lock.release(), "the lock was lost"


def hold_with_etcd3gw(host, port, name):
    import time

    import etcd3gw

    lock = etcd3gw.client(host=host, port=port).lock(name, ttl=TTL)
    # It has no way to wait.
    while not lock.acquire():
        lock.lease.revoke()
        time.sleep(0.05)
    assert lock.is_acquired(), "the key is another client's"
    print("held", flush=True)
    wait_and(lambda: lock.refresh())
    assert lock.release(), "the lock was lost"


def wait_and(renew):
    import select

    while not select.select([sys.stdin], [], [], TTL / 4)[0]:
        renew()


async def hold_with_aetcd(host, port, name):
    import aetcd

    async with aetcd.Client(host=host, port=port) as client:
        lock = client.lock(name.encode(), ttl=TTL)
        assert await lock.acquire(timeout=None), "the lock was refused"
        print("held", flush=True)
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while not ended.done():
            await lock.refresh()
            await asyncio.wait([ended], timeout=TTL / 4)
        assert await lock.release(), "the lock was lost"


def main():
    client, endpoint, name = sys.argv[1:]
    host, port = endpoint.rsplit(":", 1)
    if client == "etcd3":
        hold_with_etcd3(host, int(port), name)
    elif client == "etcd3gw":
        hold_with_etcd3gw(host, int(port), name)
    else:
        asyncio.run(hold_with_aetcd(host, int(port), name))


main()
