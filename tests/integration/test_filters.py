# SPDX-License-Identifier: Apache-2.0
"""System-call filters: one that kills the program at any call that shim/README.md does not name, others that refuse."""
import re

from adverse import row, system_call_numbers
from harness import ROOT, ProfileTest, main
from matrix import run_rows

# Of the doubles of driver and CUPTI, and of libc's threads and memory: no business of the shim's.
DOUBLES_CALLS = "brk clone3 getrandom memfd_create mprotect rt_sigprocmask".split()
# Of the workload, besides.
PROGRAM_CALLS = """clock_nanosleep exit_group lseek mmap munmap rt_sigaction rt_sigreturn sched_yield write
  set_robust_list rseq exit""".split()


def documented_system_calls(title):
    """The names in a row of the table in shim/README.md."""
    text = (ROOT / "shim" / "README.md").read_text()
    [line] = re.findall(rf"^\| {title} \|(.*)\|$", text, re.MULTILINE)
    return re.findall(r"`([a-z_0-9]+)`", line)


def number_file(beside, names):
    numbers = system_call_numbers()
    path = beside.bench.folder / "system-calls"
    path.write_text("\n".join(str(numbers[name]) for name in names))
    return path


def filter_on_the_shims_threads(test, beside):
    """Whatever the shim's threads call that is not in shim/README.md kills the program."""
    allowed = [name for title in ("control thread", "capture thread", "the calling thread at start")
               for name in documented_system_calls(title)]
    beside.start([f"start_filtered {number_file(beside, [*allowed, *DOUBLES_CALLS])}"])
    beside.attach("-linger", "0s")
    beside.exact(("small_threads 5", 20))
    beside.exact()
    beside.end()


def filter_on_the_whole_program(test, beside):
    allowed = [name for title in ("control thread", "capture thread", "the calling thread at start",
                                  "a launch", "exit")
               for name in documented_system_calls(title)]
    beside.start([f"kill_others {number_file(beside, [*allowed, *DOUBLES_CALLS, *PROGRAM_CALLS])}"],
                 SIMGPU_TRUTH=None)
    beside.attach("-linger", "0s")
    profile = beside.window(("launch_in_fiber 20", 20), ("small_threads 5", 20)).take()
    test.assert_launches(profile, 140)
    test.assertEqual(profile["quality"]["snapshots_faulted"], 0)
    beside.exact()
    beside.end()


def check_copy_refused(test, beside, action, names):
    """Only a stack that is no thread's own needs a call; without it such a stack is counted as not readable."""
    beside.start()
    beside.attach()
    beside.act([f"{action} {number_file(beside, names)}"])
    profile = beside.window(("launch_in_fiber 20", 20)).take()
    test.assert_launches(profile, 120)
    quality = profile["quality"]
    test.assertGreater(quality["snapshots_faulted"], 0)
    test.assertEqual(quality["stacks_ending_faulted"], quality["snapshots_faulted"])
    test.assertEqual(quality["stacks_ending_rooted"] + quality["stacks_ending_faulted"], quality["stacks"])
    beside.end()


UNUSUAL_CALLS = """process_vm_readv process_vm_writev memfd_create pidfd_open pidfd_getfd pidfd_send_signal
  perf_event_open ptrace bpf userfaultfd io_uring_setup membarrier rseq getdents64""".split()


def filter_says_eperm(test, beside):
    check_copy_refused(test, beside, "refuse_eperm", [name for name in UNUSUAL_CALLS if name != "getdents64"])


def filter_says_enosys(test, beside):
    check_copy_refused(test, beside, "refuse_enosys", UNUSUAL_CALLS)


def filter_says_eperm_to_all_that_can_fail(test, beside):
    """Names, thread names, liveness, memory advice: the profile does without."""
    beside.start([f"refuse_eperm {number_file(beside, ['madvise', 'prctl', 'tgkill', 'ioctl', 'getsockname'])}"])
    beside.attach()
    beside.exact()
    beside.end()


ROWS = [
    row(filter_on_the_shims_threads),
    row(filter_on_the_whole_program),
    row(filter_says_eperm),
    row(filter_says_enosys),
    row(filter_says_eperm_to_all_that_can_fail),
]


class FilterTest(ProfileTest):
    def test_rows(self):
        run_rows(self, ROWS)


if __name__ == "__main__":
    main()
