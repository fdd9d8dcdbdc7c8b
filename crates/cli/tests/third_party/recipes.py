"""Unmodified clients of etcd whose locks and elections are built from keys, against nodes of ours.

    recipes.py [--full] MUTUA    with the packages of requirements-recipes.txt installed

Every client runs as a process that prints a line when it holds the lock. A client that is not
installed is named. Nothing is asserted about how long anything takes: every wait is for an event, and
a watchdog ends a run that hangs. With --full every pair of clients is tried at every cluster.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from ports import free_port

HERE = os.path.dirname(os.path.abspath(__file__))
MUTUA = os.path.abspath(sys.argv[-1])
FULL = "--full" in sys.argv
NODE_MODULES = os.environ.get("THIRD_PARTY_NODE_MODULES", "")


# Every process that was started. One that is left running would keep the output of this script open,
# and its reader waiting.
STARTED = []


def start_process(command, **options):
    process = subprocess.Popen(command, **options)
    STARTED.append(process)
    return process


def end_all():
    for process in STARTED:
        if process.poll() is None:
            process.kill()


@contextlib.contextmanager
def watchdog(story):
    """Ends this script if the block takes longer than anything here can."""

    def give_up():
        print("HANGS: " + story, flush=True)
        end_all()
        os._exit(1)

    timer = threading.Timer(120, give_up)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()


class Cluster:
    """Nodes that serve clients on TCP."""

    def __init__(self, size):
        self.place = tempfile.TemporaryDirectory()
        names = [chr(ord("a") + index) for index in range(size)]
        members = "".join(
            '[[members]]\nname = "%s"\naddress = "127.0.0.1:%d"\n' % (name, free_port())
            for name in names
        )
        self.endpoints, self.nodes, self.killed = [], [], set()
        for name in names:
            directory = os.path.join(self.place.name, name)
            os.mkdir(directory)
            config = os.path.join(directory, "mutua.toml")
            with open(config, "w") as file:
                file.write('cluster = "recipes"\nnode = "%s"\ndata = "data"\n%s' % (name, members))
            endpoint = "127.0.0.1:%d" % free_port()
            command = [MUTUA, "node", "--quiet", "--config", config, "--listen", endpoint]
            self.nodes.append(start_process(command))
            self.endpoints.append(endpoint)
        with watchdog("%d nodes start" % size):
            for index in range(size):
                self.until(lambda: self.show("ready", index) is not None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
            node.wait()
        self.place.cleanup()

    def show(self, name, index=0):
        command = [MUTUA, "show", "--json", "--endpoint", self.endpoints[index], name]
        shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(shown.stdout) if shown.returncode == 0 else None

    def kill(self, index):
        self.nodes[index].kill()
        self.nodes[index].wait()
        self.killed.add(index)

    def until(self, is_so):
        while not is_so():
            running = (node.poll() is None for node in self.nodes)
            assert all(one or index in self.killed for index, one in enumerate(running)), \
                "a node has ended"
            time.sleep(0.05)

    def until_waiting(self, name):
        self.until(lambda: (self.show(name) or {}).get("waiting"))


class Holder:
    """A process that holds a lock."""

    def __init__(self, command, name, release=None, environment=None, group=False):
        self.name, self.release_by, self.group = name, release, group
        pipe = subprocess.PIPE
        environment = {**os.environ, **(environment or {})}
        self.process = start_process(command, stdin=pipe, stdout=pipe, text=True, env=environment,
                                     start_new_session=group)
        self.lines, self.held = [], threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())
            self.held.set()

    def until_held(self):
        self.held.wait()
        return self

    def release(self):
        if self.release_by is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(self.release_by)
        code = self.process.wait()
        assert code == 0, "%s ended with %d" % (self.name, code)

    def crash(self):
        if self.group:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def mutua(endpoints, name, ttl=3):
    command = [MUTUA, "lock", "--endpoint", endpoints[0], "--ttl", str(ttl), name, "--"]
    return Holder(command + ["sh", "-c", "echo held; cat >/dev/null"], "mutua lock")


def etcdctl(endpoints, name, ttl=3):
    command = ["etcdctl", "--endpoints", ",".join(endpoints), "lock", "--ttl", str(ttl), name, "--"]
    script = ["sh", "-c", "echo held $ETCD_LOCK_REV; cat <&3 >/dev/null"]
    # It gives its command no standard input.
    shell = ["sh", "-c", 'exec 3<&0; exec "$@"', "sh"]
    return Holder(shell + command + script, "etcdctl lock", environment={"ETCDCTL_API": "3"})


def python(client):
    def start(endpoints, name):
        command = [sys.executable, os.path.join(HERE, "hold.py"), client, endpoints[0], name]
        return Holder(command, "Python " + client)

    return start


def curl(endpoints, name):
    command = [os.path.join(HERE, "hold.sh"), endpoints[0], name]
    return Holder(command, "curl", group=True)


def npm(kind):
    def start(endpoints, name, value=""):
        command = ["node", os.path.join(HERE, "hold.cjs"), kind, name, value, *endpoints]
        environment = {"NODE_PATH": NODE_MODULES}
        return Holder(command, "npm etcd3 " + kind, environment=environment)

    return start


def clients():
    """The clients that are installed, and whether they wait in a queue."""
    known = {"mutua": (mutua, True)}
    if shutil.which("etcdctl"):
        known["etcdctl"] = (etcdctl, True)
    else:
        print("LEFT OUT: etcdctl is not installed (Debian: etcd-client)")
    known["etcd3"] = (python("etcd3"), True)
    known["aetcd"] = (python("aetcd"), True)
    known["etcd3gw"] = (python("etcd3gw"), False)
    if shutil.which("curl"):
        known["curl"] = (curl, True)
    else:
        print("LEFT OUT: curl is not installed")
    if shutil.which("node") and os.path.isdir(os.path.join(NODE_MODULES, "etcd3")):
        known["npm"] = (npm("lock"), False)
    else:
        print("LEFT OUT: node, or the npm package etcd3, is not installed")
    return known


def hand_over(cluster, first, second, name):
    """The second client waits until the first releases the lock; the first one then waits."""
    (start, _), (follow, queues) = first, second
    endpoints = cluster.endpoints
    holder = start(endpoints, name).until_held()
    waiter = follow(endpoints[1:] + endpoints[:1], name)
    if queues:
        cluster.until_waiting(name)
    assert not waiter.held.is_set(), "two clients hold the lock"
    holder.release()
    waiter.until_held()
    shown = cluster.show(name)
    assert shown is None or shown["holder"], shown
    waiter.release()


def expire(cluster, first, second, name):
    """The lock of a client that has crashed expires."""
    holder = first[0](cluster.endpoints, name).until_held()
    waiter = second[0](cluster.endpoints, name)
    if second[1]:
        cluster.until_waiting(name)
    holder.crash()
    waiter.until_held().release()


def cancel(cluster, first, second, name):
    """A waiter that gives up does not hold up the next one."""
    holder = first[0](cluster.endpoints, name).until_held()
    waiter = second[0](cluster.endpoints, name)
    if second[1]:
        cluster.until_waiting(name)
    waiter.crash()
    holder.release()
    mutua(cluster.endpoints, name).until_held().release()


def lose_a_member(cluster, first, second, name):
    """A member that serves neither client is killed while one waits for the other."""
    endpoints = cluster.endpoints[:2]
    holder = first[0](endpoints[:1], name).until_held()
    waiter = second[0](endpoints[1:], name)
    if second[1]:
        cluster.until_waiting(name)
    cluster.kill(2)
    holder.release()
    waiter.until_held().release()


def lose_the_node_of(whom, first, second, name):
    """The node that serves the holder or the waiter is killed; both know all three. The waiter waits
    on at another one, and is granted the lock when the holder releases it."""
    with Cluster(3) as cluster:
        # Leases that outlast the change of view on a busy machine too.
        holder = first(cluster.endpoints, name, 30).until_held()
        waiter = second(cluster.endpoints[1:] + cluster.endpoints[:1], name, 30)
        cluster.until_waiting(name)
        shown = cluster.show(name)
        served = shown["holder"] if whom == "holder" else shown["waiting"][0]
        lost = "abc".index(served["node"])
        cluster.kill(lost)
        left = (lost + 1) % 3
        served_again = lambda shown: shown and shown["holder"] and shown["waiting"]
        cluster.until(lambda: served_again(cluster.show(name, left)))
        assert not waiter.held.is_set(), "two clients hold the lock"
        holder.release()
        waiter.until_held().release()
        cluster.until(lambda: not (cluster.show(name, left) or {"holder": 1})["holder"])


def keep_the_value(cluster):
    """The last value that a leader has proclaimed is known when its node is killed."""
    call = lambda index, path, body: json.loads(subprocess.run(
        ["curl", "--silent", "--show-error", "--json", json.dumps(body),
         "http://%s/v3/%s" % (cluster.endpoints[index], path)], stdout=subprocess.PIPE).stdout)
    text = lambda words: base64.b64encode(words.encode()).decode()
    lease = call(0, "lease/grant", {"TTL": 60})["ID"]
    campaign = {"name": text("led"), "lease": lease, "value": text("first")}
    leader = call(0, "election/campaign", campaign)["leader"]
    call(0, "election/proclaim", {"leader": leader, "value": text("second")})
    cluster.kill(0)
    known = lambda: call(1, "election/leader", {"name": text("led")}).get("kv")
    cluster.until(lambda: known())
    assert known()["value"] == text("second"), known()
    call(2, "election/resign", {"leader": leader})


def elect_with_etcdctl(cluster):
    """The second candidate leads after the first; an observer sees both values."""
    every = ",".join(cluster.endpoints)
    command = ["etcdctl", "--endpoints", every, "elect"]
    old = {"ETCDCTL_API": "3"}
    observer = Holder(command + ["-l", "ctl"], "etcdctl elect -l", environment=old)
    start = lambda value: Holder(command + ["ctl", value], "etcdctl elect", environment=old)
    first = start("one").until_held()
    second = start("two")
    cluster.until_waiting("ctl")
    assert not second.held.is_set(), "two leaders"
    cluster.until(lambda: "one" in observer.lines)
    first.process.send_signal(signal.SIGINT)
    second.until_held()
    cluster.until(lambda: "two" in observer.lines)
    for process in (first, second, observer):
        process.crash()


def elect_beside_mutua(cluster):
    """`mutua elect` and `etcdctl elect` lead in turn, and each observes the other."""
    every, old = ",".join(cluster.endpoints), {"ETCDCTL_API": "3"}
    observe = [MUTUA, "elect", "--endpoint", cluster.endpoints[-1], "--observe", "both"]
    ours = Holder(observe, "mutua elect --observe")
    elect = [MUTUA, "elect", "--ttl", "3s", "--endpoint", cluster.endpoints[-1]]
    theirs = ["etcdctl", "--endpoints", every, "elect"]
    observer = Holder(theirs + ["-l", "both"], "etcdctl elect -l", environment=old)
    observes = lambda value: any("leader %s," % value in line for line in ours.lines)
    work = ["--", "sh", "-c", "echo $LOCK_TOKEN; cat >/dev/null"]
    first = Holder(elect + ["both", "one"] + work, "mutua elect").until_held()
    second = Holder(theirs + ["both", "two"], "etcdctl elect", environment=old)
    cluster.until_waiting("both")
    third = Holder(elect + ["both", "three"] + work, "mutua elect")
    cluster.until(lambda: "one" in observer.lines and observes("one"))
    assert not second.held.is_set() and not third.held.is_set(), "two leaders"
    first.release()
    second.until_held()
    cluster.until(lambda: "two" in observer.lines and observes("two"))
    assert not third.held.is_set(), "two leaders"
    second.process.send_signal(signal.SIGINT)
    third.until_held()
    cluster.until(lambda: "three" in observer.lines and observes("three"))
    assert int(third.lines[0]) > int(first.lines[0]), "fencing tokens grow"
    third.release()
    for process in (second, observer, ours):
        process.crash()


def elect_with_npm(cluster):
    first = npm("elect")(cluster.endpoints, "n", "one").until_held()
    second = npm("elect")(cluster.endpoints, "n", "two")
    cluster.until_waiting("election/n")
    assert not second.held.is_set(), "two leaders"
    first.release()
    second.until_held().release()


def run(story, *arguments):
    with watchdog(story):
        arguments[0](*arguments[1:])
    print("ok  " + story, flush=True)


def stories(cluster, known, size):
    names = list(known)
    others = [name for name in names if name != "mutua"]
    pairs = [("mutua", name) for name in others] + [(name, "mutua") for name in others]
    pairs += [(name, name) for name in others]
    if FULL:
        pairs = [(first, second) for first in names for second in names]
    for first, second in pairs:
        what = "%s, then %s, %d nodes" % (first, second, size)
        name = "%s-%s" % (first, second)
        run("hand over: " + what, hand_over, cluster, known[first], known[second], "h-" + name)
        if FULL or first == second:
            run("expiry: " + what, expire, cluster, known[first], known[second], "e-" + name)
            run("cancel: " + what, cancel, cluster, known[first], known[second], "c-" + name)
    if "etcdctl" in known:
        run("elect with etcdctl, %d nodes" % size, elect_with_etcdctl, cluster)
        run("elect with mutua and etcdctl, %d nodes" % size, elect_beside_mutua, cluster)
    if "npm" in known:
        run("elect with npm, %d nodes" % size, elect_with_npm, cluster)


def lose_nodes(known):
    """Clients that know several endpoints, when the node of one of them is killed."""
    several = {"mutua": mutua}
    if "etcdctl" in known:
        several["etcdctl"] = etcdctl
    pairs = [(first, second) for first in several for second in several]
    if not FULL:
        pairs = [pair for pair in pairs if pair[1] != "mutua"]
    for first, second in pairs:
        for whom in ("holder", "waiter"):
            story = "the node of the %s is killed: %s, then %s" % (whom, first, second)
            run(story, lose_the_node_of, whom, several[first], several[second], "n")
    if "curl" in known:
        with Cluster(3) as cluster:
            run("the node of a leader is killed", keep_the_value, cluster)


def main():
    known = clients()
    for size in (1, 3):
        with Cluster(size) as cluster:
            stories(cluster, known, size)
            if size == 3:
                names = [name for name in known if name != "mutua"]
                pair = (known[names[0]], known[names[-1] if FULL else names[0]])
                run("a member is killed", lose_a_member, cluster, *pair, "k")
    lose_nodes(known)


try:
    main()
finally:
    end_all()
