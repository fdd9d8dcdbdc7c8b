"""Unmodified clients of etcd against a node of ours.

    clients.py MUTUA    with the packages of requirements.txt installed

Each client grants a lease, takes a lock, waits for one, gives up waiting, loses one by expiry and
frees one. What another client sees is read from `mutua show`. Nothing here is asserted about how long
anything takes: every wait is for an event, and a watchdog ends a run that hangs.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile

import etcd_client
import etcetra

from ports import free_port

MUTUA = os.path.abspath(sys.argv[1])


class Node:
    """A node of one member that listens on TCP."""

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory()
        self.port = free_port()
        config = os.path.join(self.place.name, "mutua.toml")
        with open(config, "w") as file:
            file.write('cluster = "third-party"\nnode = "a"\ndata = "data"\n')
            file.write('[[members]]\nname = "a"\naddress = "127.0.0.1:%d"\n' % free_port())
        listen = "127.0.0.1:%d" % self.port
        command = [MUTUA, "node", "--quiet", "--config", config, "--listen", listen]
        self.process = subprocess.Popen(command)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.place.cleanup()

    async def show(self, name):
        endpoint = "127.0.0.1:%d" % self.port
        command = [MUTUA, "show", "--json", "--endpoint", endpoint, name]
        quiet = subprocess.DEVNULL
        shown = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=quiet)
        output, _ = await shown.communicate()
        return json.loads(output) if shown.returncode == 0 else None

    async def until(self, name, is_so):
        while True:
            assert self.process.poll() is None, "the node has ended"
            state = await self.show(name)
            if state is not None and is_so(state):
                return state
            await asyncio.sleep(0.05)


class Etcetra:
    """Python, on grpcio."""

    name = "etcetra"
    timed_out = asyncio.TimeoutError

    def __init__(self, port):
        self.client = etcetra.EtcdClient(etcetra.HostPortPair("127.0.0.1", port))

    def lock(self, name, ttl=None, timeout=None):
        return self.client.with_lock(name, ttl=ttl, timeout=timeout)

    def connect(self):
        return self.client.connect()

    async def use_a_lease(self, etcd):
        await etcd.revoke_lease(await etcd.grant_lease(30))


class EtcdClient:
    """The Rust crate etcd-client, through PyO3."""

    name = "etcd-client"
    timed_out = Exception

    def __init__(self, port):
        self.client = etcd_client.Client(["http://127.0.0.1:%d" % port])

    def lock(self, name, ttl=None, timeout=None):
        option = etcd_client.EtcdLockOption(name.encode(), timeout=timeout, ttl=ttl)
        return self.client.with_lock(option)

    def connect(self):
        return self.client.connect()

    async def use_a_lease(self, etcd):
        # It does not tell the number of the lease, so there is nothing to revoke.
        await etcd.lease_grant(30)


async def grant_a_lease(_, client):
    async with client.connect() as etcd:
        await client.use_a_lease(etcd)


async def exclude_and_wait_in_order(node, client):
    name = client.name + "/order"
    order = []

    async def enter(number):
        async with client.lock(name, ttl=60):
            order.append(number)

    async with client.lock(name, ttl=60):
        state = await node.until(name, lambda state: state["holder"])
        assert int(state["holder"]["fencing_token"]) > 0, state
        waiters = []
        for number in range(3):
            waiters.append(asyncio.create_task(enter(number)))
            await node.until(name, lambda state: len(state["waiting"]) == number + 1)
        assert order == [], "a second client held the lock"
    await asyncio.gather(*waiters)
    assert order == [0, 1, 2], order
    await node.until(name, lambda state: not state["holder"] and not state["waiting"])


async def give_up(node, client):
    name = client.name + "/patience"
    async with client.lock(name, ttl=60):
        try:
            async with client.lock(name, ttl=60, timeout=0.2):
                raise AssertionError("two clients hold the lock")
        except client.timed_out as error:
            if isinstance(error, AssertionError):
                raise
        await node.until(name, lambda state: not state["waiting"])


async def lose_by_expiry(node, client):
    name = client.name + "/expiry"
    held = asyncio.Event()
    over = asyncio.Event()

    async def fall_asleep():
        # Neither client renews once it holds the lock.
        async with client.lock(name, ttl=2):
            held.set()
            await over.wait()

    sleeper = asyncio.create_task(fall_asleep())
    await held.wait()
    first = await node.until(name, lambda state: state["holder"])
    async with client.lock(name, ttl=60):
        second = await node.until(name, lambda state: state["holder"])
        assert int(second["holder"]["fencing_token"]) > int(first["holder"]["fencing_token"]), (first, second)
        over.set()
        try:
            await sleeper
        except Exception as error:  # Its lease is gone, and some say so.
            assert "lease not found" in str(error) or "session is expired" in str(error), error
        third = await node.show(name)
        assert third["holder"] == second["holder"] or (
            third["holder"]["fencing_token"] == second["holder"]["fencing_token"]
        ), "who lost the lock has freed it from under the next one"


async def main():
    with Node() as node:
        await asyncio.wait_for(node.until("ready", lambda state: True), 60)
        for client in (Etcetra(node.port), EtcdClient(node.port)):
            for story in (grant_a_lease, exclude_and_wait_in_order, give_up, lose_by_expiry):
                await asyncio.wait_for(story(node, client), 60)
                print("ok  %s: %s" % (client.name, story.__name__.replace("_", " ")), flush=True)


asyncio.run(main())
