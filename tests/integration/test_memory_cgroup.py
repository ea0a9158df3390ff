# SPDX-License-Identifier: Apache-2.0
"""A workload whose memory is limited to less than the rings take: they are the sidecar's, not the workload's."""
import os

from cgroup import NoCgroup, killed_for_memory, memory_cgroup
from harness import Bench, ProfileTest, main, whole_run

LIMIT = 16 << 20


class MemoryCgroupTest(ProfileTest):
    def test_16_mib(self):
        try:
            with memory_cgroup(LIMIT) as group, Bench() as bench:
                self.check(group, bench)
        except NoCgroup as problem:
            self.skipTest(f"NO MEMORY CGROUP COULD BE MADE: {problem}")

    def check(self, group, bench):
        def join():
            (group / "cgroup.procs").write_text(str(os.getpid()))

        stderr_path = bench.folder / "stderr"
        with open(stderr_path, "wb") as stderr:
            profile, truth = whole_run(bench, "launch_loop", "--iterations", "40000", "--rate", "20000", "--threads",
                                       "4", "--streams", "4", seconds=4,
                                       popen={"preexec_fn": join, "stderr": stderr})
        self.assertEqual(stderr_path.read_bytes(), b"")
        self.assertEqual(killed_for_memory(group), 0)
        self.assert_exact(profile, truth)
        self.assert_all_rooted(profile)


if __name__ == "__main__":
    main()
