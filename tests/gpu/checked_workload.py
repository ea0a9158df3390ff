# SPDX-License-Identifier: Apache-2.0
"""tests/workloads/checked while it runs: what it has done so far, how fast, how often its results were wrong."""
import json

from gpu_harness import median, wait_until


class Checked:
    def __init__(self, bench, *arguments, **environment):
        self.workload = bench.workload("checked", "--seconds", "0", *arguments, **environment)
        wait_until(lambda: len(self.lines()) > 2, "the workload to have begun", 60)

    @property
    def pid(self):
        return self.workload.pid

    @property
    def pids(self):
        return [self.pid]

    def alive(self):
        return self.workload.process.poll() is None

    def lines(self):
        text = self.workload.output()
        whole = text[:text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines() if line.startswith('{"at_ns"')]

    def rates(self, begin_ns, end_ns):
        """Operations a second of each tenth of a second in between, all threads together."""
        lines = [line for line in self.lines() if begin_ns <= line["at_ns"] <= end_ns]
        return [(sum(b["operations"]) - sum(a["operations"])) * 1e9 / (b["at_ns"] - a["at_ns"])
                for a, b in zip(lines, lines[1:])]

    def rate(self, begin_ns, end_ns):
        return median(self.rates(begin_ns, end_ns) or [0.0])

    def longest_stall_s(self, begin_ns, end_ns):
        """The longest time in which some thread did nothing, to a tenth of a second."""
        lines = [line for line in self.lines() if begin_ns <= line["at_ns"] <= end_ns]
        longest = 0.0
        for thread in range(len(lines[0]["operations"]) if lines else 0):
            since = lines[0]["at_ns"]
            for before, after in zip(lines, lines[1:]):
                if after["operations"][thread] != before["operations"][thread]:
                    since = after["at_ns"]
                longest = max(longest, (after["at_ns"] - since) * 1e-9)
        return longest

    def stop(self, seconds=60):
        """Ends it and returns its truth; fails with its output when it died."""
        self.workload.stop()
        return self.workload.truth(seconds)
