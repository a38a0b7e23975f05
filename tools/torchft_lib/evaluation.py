"""What a run shows: whether replicas were equal at every step, how long a death held them up."""

import math
from collections import Counter
from dataclasses import dataclass


@dataclass
class Equality:
    """compared: steps that two replicas or more have committed, of one quorum. different: sentences
    on steps at which replicas differ. repeated: steps that a replica committed just before it was
    killed and that the others, for whom its death came first, made again."""

    compared: int
    different: list
    repeated: int


def equality(run):
    found = {}  # {step: {quorum: [(digest, the last of a victim)]}}
    for each in run.replicas:
        committed = each.committed()
        for line in committed:
            last = each.killed_s is not None and line is committed[-1]
            found.setdefault(line["step"], {}).setdefault(line["quorum"], []).append(
                (line["digest"], last))
    result = Equality(0, [], 0)
    for step, quorums in sorted(found.items()):
        result.compared += any(len(lines) > 1 for lines in quorums.values())
        lost = {quorum for quorum, lines in quorums.items()
                if len(quorums) > 1 and all(last for _, last in lines)}
        digests = {digest for quorum, lines in quorums.items() if quorum not in lost
                   for digest, _ in lines}
        result.repeated += len(lost)
        if len(digests) > 1 or any(len({digest for digest, _ in quorums[quorum]}) > 1
                                   for quorum in lost):
            result.different.append(f"step {step}: {quorums}")
    return result


def seconds_to_next_step(run):
    """Of each kill, until the first step that was committed without the dead one."""
    found = []
    for victim in run.victims:
        quorum = victim.committed()[-1]["quorum"]
        others = [each for each in run.replicas if each is not victim]
        found.append(_first(others, lambda line: line["quorum"] > quorum) - victim.killed_s)
    return found


def seconds_to_return(run):
    """Of each kill, until the first step that the restarted one has committed."""
    found = []
    for victim in run.victims:
        same = [each for each in run.replicas if each.number == victim.number]
        found.append(_first(same, lambda line: line["at_s"] > victim.killed_s) - victim.killed_s)
    return found


def _first(replicas, is_meant):
    """When the first step that is meant was committed; infinity if it was not."""
    return min((line["at_s"] for each in replicas for line in each.committed() if is_meant(line)),
               default=math.inf)


def steps_by_replicas(run):
    """{replicas that took part: steps}."""
    sizes = {line["step"]: line["replicas"] for each in run.replicas for line in each.committed()}
    return dict(sorted(Counter(sizes.values()).items()))


def discarded(run):
    """Tries of a step that some replica has discarded."""
    return len({(line["step"], line["quorum"]) for each in run.replicas for line in each.lines
                if not line["committed"]})
