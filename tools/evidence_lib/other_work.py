"""How busy a machine is with what is not measured."""

import os
import resource
import time

_DISTURBED = 0.5  # processors


class OtherWork:
    """How many processors are busy with what is neither this process nor a child that it has
    waited for, since this was made. What the kernel does for their packets counts as well."""

    def __init__(self):
        self._begin_s, self._busy_s, self._own_s = self._now()

    def processors(self):
        end_s, busy_s, own_s = self._now()
        return ((busy_s - self._busy_s) - (own_s - self._own_s)) / (end_s - self._begin_s)

    @staticmethod
    def _now():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        busy_s = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), busy_s, sum(one.ru_utime + one.ru_stime for one in own)


def was_disturbed(result):
    """Of a result with "others", the processors that other work took. It is measured again."""
    return result["others"] > _DISTURBED
