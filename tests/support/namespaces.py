"""A network of hosts for tests, each a network namespace of Linux, with a router between them: the test's own namespace. What
one host sends to another can be dropped without a word, one way or both.

    if __name__ == "__main__":
        namespaces.enter()                  first of all: the program runs again, in a namespace of its own
    network = Network()
    host = network.add("node-1")            host.address, host.under (to run programs there)
    network.cut(host, other)                host sends to other in vain
    network.mend()

It needs root, and iproute2. All of it ends with the program.
"""

import os
import subprocess
import sys

INSIDE = "TEST_IN_NAMESPACE"
NAMES = "/run/netns"  # where ip keeps names of namespaces


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=30)


def missing():
    """None, or why there are no namespaces."""
    if os.getuid() != 0:
        return "network namespaces need root"
    done = subprocess.run(["unshare", "--net", "--mount", "ip", "rule"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no network namespaces: {done.stderr.strip()}"


def enter():
    if not os.environ.get(INSIDE):
        os.execvpe("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv],
                   {**os.environ, INSIDE: "yes"})


class Host:
    def __init__(self, name, number):
        self.name, self.address, self.gateway = name, f"10.77.{number}.2", f"10.77.{number}.1"
        self.under = ("ip", "netns", "exec", name)


class Network:
    """`address` is that of the test itself."""

    address = "10.77.0.1"

    def __init__(self):
        self.hosts, self.cuts = [], []
        os.makedirs(NAMES, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "names", NAMES], check=True, timeout=30)  # seen by this program alone
        ip("link", "set", "lo", "up")
        ip("addr", "add", f"{self.address}/32", "dev", "lo")
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
            file.write("1")

    def add(self, name):
        host = Host(name, len(self.hosts) + 1)
        self.hosts.append(host)
        ip("netns", "add", name)
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "uplink", "netns", name)
        ip("addr", "add", f"{host.gateway}/24", "dev", f"to-{name}")
        ip("link", "set", f"to-{name}", "up")
        for words in (("addr", "add", f"{host.address}/24", "dev", "uplink"), ("link", "set", "uplink", "up"),
                      ("link", "set", "lo", "up"), ("route", "add", "default", "via", host.gateway)):
            ip("-netns", name, *words)
        return host

    def cut(self, source, target):
        rule = ("from", source.address, "to", target.address, "blackhole")
        ip("rule", "add", *rule)
        self.cuts.append(rule)

    def mend(self):
        for rule in self.cuts:
            ip("rule", "del", *rule)
        self.cuts = []
