# SPDX-License-Identifier: Apache-2.0
"""`pillion record`, started by a test."""
import json
import pathlib

from harness import PILLION, WORKLOADS, wait_until


class Recording:
    """One `pillion record`, with what it and its command say in one log."""

    def __init__(self, bench, *arguments, name="profile.json", form="json", popen=None, **environment):
        self.path = bench.folder / name
        environment = bench.environment(shim=False, **environment)
        self.process, self.log_path = bench.start(
            [PILLION, "record", "-format", form, "-o", self.path, *arguments], environment, **(popen or {}))

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def wait_for(self, words, seconds=20):
        wait_until(lambda: words in self.log() or self.process.poll() is not None, f"'{words}' in the log", seconds)
        if words not in self.log():
            raise AssertionError(f"ended with {self.process.returncode}: {self.log()}")

    def finish(self, expect=0, seconds=60):
        self.process.wait(seconds)
        if self.process.returncode != expect:
            raise AssertionError(f"record exited {self.process.returncode}, not {expect}: {self.log()}")

    def profile(self, expect=0):
        self.finish(expect)
        return json.loads(self.path.read_text())

    def truths(self):
        """The truth lines of the command's programs, in the order in which they ended."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith('{"workload"')]


def workload(name, *arguments):
    return [str(WORKLOADS / name), *map(str, arguments)]


def by_kernel(profile):
    return {row["system_name"] or row["name"]: (row["launches"], row["gpu_time_ns"]) for row in profile["kernels"]}
