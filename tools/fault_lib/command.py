"""The command line of tools/netfaults, and what it does to ranks."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from net_lib.network import Network, exit_when_terminated

from .group import Group
from .instant import draw
from .report import table
from .verdict import Verdict, judge

_JOIN_S, _HANG_S = 40, 20


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        prog="tools/netfaults", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Ranks of a network group to which something happens at random instants. The "
                    "others must name the right rank in time, none may hang, and none may wait "
                    "while it destroys its communicator. Exit status 1: one was wrong.")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder of a build")
    parser.add_argument("--instants", type=int, default=28, help="how many")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--seed", default="1", help="a seed and a number make an instant")
    parser.add_argument("--ranks", type=int, default=4, help="2 to 64")
    parser.add_argument("--rate", default="1gbit", help="of links between hosts, as tc writes it")
    parser.add_argument("--no-hosts", action="store_true",
                        help="leaves out what needs network namespaces; then numbers stand for "
                             "other instants")
    parser.add_argument("--ucx", nargs="+", default=[""], metavar="FILE",
                        help="libucp.so.0, one or several, of which each instant takes one; \"\" "
                             "stands for the one that the loader finds")
    parser.add_argument("--slack-ms", type=float, default=1000,
                        help="what a loaded machine may add to every limit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="adds a line for each instant")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE",
                        help="only prints the table of what --json has written")
    return parser.parse_args(arguments)


def missing(arguments):
    """What this machine or build lacks, as sentences."""
    program = arguments.build / "tools/fault-rank"
    if not program.exists():
        yield f"{program} is not there; give --build"
    if not 2 <= arguments.ranks <= 64:
        yield f"--ranks is {arguments.ranks}; it is 2 to 64"
    if not arguments.no_hosts:
        if os.geteuid() != 0:
            yield "network namespaces need root; --no-hosts leaves them out"
        for tool in ("ip", "tc", "unshare", "taskset"):
            if shutil.which(tool) is None:
                yield f"{tool} is not on this machine; --no-hosts leaves out what needs it"


def main():
    arguments = parse_arguments()
    if arguments.table:
        lines = [line for file in arguments.table for line in file.read_text().splitlines()]
        print(table([Verdict(**json.loads(line)) for line in lines]))
        return 0
    lacking = list(missing(arguments))
    if lacking:
        print("\n".join(f"netfaults: {sentence}" for sentence in lacking), file=sys.stderr)
        return 2
    exit_when_terminated()
    print(f"seed {arguments.seed}, instants {arguments.first} to "
          f"{arguments.first + arguments.instants - 1}", flush=True)
    network = (contextlib.nullcontext() if arguments.no_hosts
               else Network(arguments.ranks, arguments.rate))
    try:
        with network as net:
            verdicts = [_run(arguments, number, net) for number in range(
                arguments.first, arguments.first + arguments.instants)]
    except RuntimeError as error:  # of ip or tc, with what it said
        print(f"netfaults: {error}", file=sys.stderr)
        return 2
    print(table(verdicts))
    return 0 if all(verdict.is_right() for verdict in verdicts) else 1


def _run(arguments, number, net):
    instant = draw(arguments.seed, number, arguments.ranks, hosts=not arguments.no_hosts,
                   ucx=tuple(arguments.ucx))
    verdict = run_instant(arguments.build / "tools/fault-rank", instant, arguments.ranks,
                          net if instant.kind.needs_hosts else None, arguments.slack_ms)
    if not verdict.is_right():
        print(f"{instant}\n  again: --seed {arguments.seed} --first {number} --instants 1\n  "
              f"{verdict.hung} hung; wrong: {verdict.wrong}; late: {verdict.late}", flush=True)
    if arguments.json:
        with arguments.json.open("a") as lines:
            lines.write(json.dumps(verdict.as_json()) + "\n")
    return verdict


def run_instant(program, instant, ranks, net, slack_ms):
    """Starts a group, does to it what `instant` says, and judges how its ranks end."""
    kind = instant.kind
    spared = set(range(ranks)) - {instant.victim}
    with Group(program, instant, ranks, net) as group:
        if not kind.while_forming and not group.wait_until_begun(_JOIN_S):
            verdict = Verdict(instant.number, kind.name)
            verdict.wrong = [f"the group did not form: {end}" for end in group.ends if end]
            verdict.hung = ranks - len(verdict.wrong)
            return verdict
        time.sleep(instant.delay_s)
        limit_s = (kind.limit_ms + slack_ms) / 1e3 + _HANG_S
        with _happening(instant, group, net) as at_ns:
            group.wait_for_ends(spared, limit_s)
        group.wait_for_ends(range(ranks), 0 if kind.name.startswith("kill") else limit_s)
        return judge(instant, group, at_ns, slack_ms)


_SIGNALS = {"abort": signal.SIGUSR1, "destroy": signal.SIGUSR2, "stop": signal.SIGSTOP,
            "stop while forming": signal.SIGSTOP}


@contextlib.contextmanager
def _happening(instant, group, net):
    """Does it on entry, returns when that was, and ends it on exit."""
    kind, victim = instant.kind.name, group.processes[instant.victim]
    if kind == "cut link":
        net.set_link(net.hosts[instant.victim], up=False)
        yield time.monotonic_ns()
        net.set_link(net.hosts[instant.victim], up=True)
    elif kind.startswith("blackhole"):
        routes = list(_routes(instant, net))
        for host, peer in routes:
            net.set_blackhole(host, peer)
        yield time.monotonic_ns()
        for host, peer in routes:
            net.clear_blackhole(host, peer)
    else:
        number = _SIGNALS.get(kind, signal.SIGKILL)
        at_ns = time.monotonic_ns()
        victim.send_signal(number)
        yield at_ns
        if number == signal.SIGSTOP:
            victim.send_signal(signal.SIGCONT)


def _routes(instant, net):
    """(host, peer): what host sends to peer vanishes."""
    victim = net.hosts[instant.victim]
    one_pair = instant.kind.name == "blackhole, one pair"
    peers = [net.hosts[instant.partner]] if one_pair else [
        host for host in net.hosts if host is not victim]
    for peer in peers:
        if instant.direction != "from":
            yield victim, peer
        if instant.direction != "to":
            yield peer, victim
