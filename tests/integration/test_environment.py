# SPDX-License-Identifier: Apache-2.0
"""Hostile environments, one row each: the program runs on unharmed, and the profile is exact or says what is lost.

The workload `adverse` does to itself what a row names: before cuInit, once a sidecar is attached, or in the window.
"""
import pathlib
import shutil
import threading

from adverse import Beside, is_root, row
from harness import BUILD, SHIM, ProfileTest, Window, main, wait_until
from matrix import Row, run_rows
from shim_side import CallLog

USER = 54321  # nobody's
NEEDS_ROOT = "" if is_root() else "needs root"
PRIVATE_MOUNTS = ["unshare", "--mount", "--propagation", "private"]


def exact(name, before=(), attached=(), armed=(), skip="", **options):
    """The profile has every launch once, under stacks that reach main; nothing came to the program's ears."""
    def run(test):
        with Beside(test) as beside:
            beside.start(before, SIMGPU_TRUTH=None, **options)
            beside.attach()
            beside.act(attached)
            beside.exact(*armed)
            beside.end()
    return Row(name, run, skip)


def exact_again(name, *between, skip="", **options):
    """A window, the fault, another window: both exact. What a program can no longer open is loaded by then."""
    def run(test):
        with Beside(test) as beside:
            beside.start(**options)
            beside.attach()
            beside.exact()
            beside.act([action.format(beside.bench.folder) for action in between])
            beside.exact()
            beside.end()
    return Row(name, run, skip)


def refused(name, action, undo, *words, skip="", first=()):
    """The window is refused with these words; the fault undone, the next one is exact."""
    def run(test):
        with Beside(test) as beside:
            beside.start()
            beside.attach()
            beside.act(first)
            beside.act([action])
            beside.refused(503, *words)
            if undo:
                beside.act([undo])
                beside.exact()
            beside.end()
    return Row(name, run, skip)


def inert(name, before, words, skip="", **options):
    """The shim cannot start and says why in its log; the program runs on, and the sidecar says what it sees."""
    def run(test):
        with Beside(test) as beside:
            beside.bench.folder.chmod(0o755)
            beside.bench.sockets.chmod(0o777)
            beside.shim_log_path.touch()
            beside.shim_log_path.chmod(0o666)
            shim = beside.bench.folder / SHIM.name  # where any user can read it
            shutil.copy(SHIM, shim)
            beside.start(before, CUDA_INJECTION64_PATH=shim, **options)
            beside.sidecar = beside.bench.sidecar("-wait-for-shim", "0")
            beside.workload.launch(100)
            status, _, body = beside.sidecar.request("/profile?seconds=1")
            test.assertEqual(status, 503, body)
            test.assertEqual(beside.bench.shim_sockets(), [])
            test.assertIn(words, beside.shim_log())
            beside.end()
    return Row(name, run, skip)


# Signals


def handler_of_every_signal(test, beside):
    beside.start(["count_signals"])
    beside.attach()
    beside.exact()
    test.assertEqual(beside.end()["interrupted"], 0)


def faults_on_purpose(test, beside):
    beside.start(["handle_faults"])
    beside.attach()
    beside.exact("fault 200")
    test.assertEqual(beside.end()["faults"], 200)


def alarm_timer_1_khz(test, beside):
    beside.start(["alarm_timer"])
    beside.attach()
    beside.exact()
    test.assertGreater(beside.end()["timer_signals"], 500)


# Limits


def descriptors_exhausted_before_start(test, beside):
    """Nothing can be opened, not even the library: cuInit goes on as if nothing had been asked of it."""
    beside.start(["exhaust_fds"])
    beside.sidecar = beside.bench.sidecar("-wait-for-shim", "0")
    beside.workload.launch(100)
    beside.act(["free_fds"])
    status, _, body = beside.sidecar.request("/profile?seconds=1")
    test.assertEqual(status, 503, body)
    test.assertIn("without", body.decode())
    beside.end()


# Descriptors


def closed_before_the_attach(test, beside):
    """As daemons do after their start. The shim makes itself a new socket when somebody knocks at the old one."""
    beside.start()
    beside.act(["close_all"])
    beside.attach()
    beside.exact()
    beside.end()


def polls_without_end(pid):
    """The shim's control thread is in a poll() of two descriptors that only an event ends."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "pillion-control\n":
            call = (task / "syscall").read_text().split()
            return call[0] == "7" and int(call[3], 16) & 0xffffffff == 0xffffffff
    return False


def closed_while_asleep(test, beside):
    beside.start()
    beside.attach()
    wait_until(lambda: polls_without_end(beside.workload.pid), "the shim to sleep")
    beside.act(["close_all"])
    status, _, body = beside.sidecar.request(f"/profile?seconds=1&pid={beside.workload.pid}")
    # By then the loss may not have been seen, or it has been, or the shim is attached again.
    test.assertTrue(status == 200 or b"closed its connection" in body or b"no attached process" in body, body)
    beside.wait_attached()
    beside.exact()
    beside.end()


def closed_while_armed(test, beside):
    beside.start()
    beside.attach("-linger", "0s")
    profile = beside.window("close_all").take()
    test.assertIn("ended_early", [anomaly["kind"] for anomaly in profile["quality"]["anomalies"]])
    beside.wait_attached()
    beside.exact()
    beside.end()


def reused_before_the_attach(test, beside):
    beside.start()
    beside.act([f"reuse_fds {beside.bench.folder}"])
    beside.attach("-linger", "0s")
    beside.exact()
    beside.end()


def reused_while_armed(test, beside):
    beside.start()
    beside.attach("-linger", "0s")
    profile = beside.window(f"reuse_fds {beside.bench.folder}").take()
    test.assertIn("ended_early", [anomaly["kind"] for anomaly in profile["quality"]["anomalies"]])
    beside.wait_attached()
    beside.exact()
    beside.end()


# Root, user, /proc


def proc_hidden_while_attached(test, beside):
    """Without maps no address has a name: the counts are exact, and the stacks say how they end."""
    beside.start(wrapper=PRIVATE_MOUNTS)
    beside.attach()
    beside.act(["hide_proc"])
    profile = beside.window().take()
    test.assert_launches(profile, 100)
    test.assertEqual(profile["quality"]["stacks_ending_rooted"], 0)
    test.assertTrue(all("stack_ending" in stack["labels"] for stack in profile["stacks"]))
    beside.end()


def proc_of_others_is_let_alone(test, beside):
    """The workload itself: it does not hide the /proc of whoever started it. Here that is a shell with one of its own."""
    beside.start(shim=False, wrapper=(*PRIVATE_MOUNTS, "sh", "-c", '"$@"; exit $?', "sh"))
    for action in ("hide_proc", "hide_other_pids"):
        beside.workload.tell(action)
        test.assertRegex(beside.workload.line(), "^failed: ")
    beside.workload.process.stdin.close()
    test.assertEqual(beside.workload.process.wait(20), 0)
    test.assertEqual(beside.workload.stderr_path.read_text().count("/proc is not this program's own"), 2)


def chroot_before_the_first_window(test, beside):
    """CUPTI is looked for when a window asks for it, and is not to be found then."""
    beside.start()
    beside.attach()
    beside.act([f"chroot {beside.bench.folder}"])
    beside.refused(503, "no CUPTI")
    beside.end()


# Threads and children


def main_thread_gone(test, beside):
    """pthread_exit in main: /proc/self leads nowhere from then on."""
    beside.start()
    beside.workload.tell("end_main_thread 30")
    test.assertEqual(beside.workload.line(), "30")
    beside.attach()
    for _ in range(2):
        with Window(beside.sidecar, 2, pid=beside.workload.pid) as window:
            for _ in range(3):
                beside.workload.do("next")
        profile = window.take()
        test.assert_launches(profile, 90)
        test.assert_all_rooted(profile)
    beside.workload.process.stdin.close()
    test.assertEqual(beside.workload.process.wait(20), 0)
    test.assertEqual(beside.workload.stderr_path.read_text(), "")


def fork_while_arming(test, beside):
    log = CallLog(beside.bench.folder / "calls")
    beside.start(SIMGPU_SUBSCRIBE_MS=500, SIMGPU_CALL_LOG=log.path)
    beside.attach()
    forked = threading.Event()

    def fork():
        wait_until(lambda: log.calls("cuptiSubscribe_v2") or log.calls("cuptiSubscribe"), "the arming")
        beside.act(["fork_exit 3", "vfork_exec", "raw_clone", "double_fork"])
        forked.set()

    thread = threading.Thread(target=fork)
    thread.start()
    with Window(beside.sidecar, 2, pid=beside.workload.pid) as window:
        thread.join()
        test.assertTrue(forked.is_set())
        beside.workload.launch(100)
    profile = window.take()
    test.assert_launches(profile, 100)
    test.assert_all_rooted(profile)
    beside.end()


def daemon_while_attached(test, beside):
    """The parent, whose shim it is, ends; the child goes on without CUDA, as CUDA has it, and says so itself."""
    beside.start()
    beside.attach()
    beside.exact()
    beside.workload.tell("daemon")
    test.assertEqual(beside.workload.process.wait(20), 0)
    test.assertEqual(beside.workload.line(), "ok")
    beside.workload.tell("fork_exit 2")
    test.assertEqual(beside.workload.line(), "ok")
    beside.workload.tell("end_in_thread exit")
    test.assertEqual(beside.workload.line(), "")
    wait_until(lambda: beside.sidecar.process_state(beside.workload.pid) is None, "the sidecar to see the end")


def daemon_before_cuinit(test, beside):
    """What is profiled is the child; its parent is gone."""
    beside.bench.sockets.chmod(0o777)
    beside.start(["daemon"])
    beside.sidecar = beside.bench.sidecar("-wait-for-shim", "0")
    wait_until(lambda: beside.sidecar.get_json("/status")["processes"], "the child to be attached")
    beside.workload.pid = beside.sidecar.get_json("/status")["processes"][0]["pid"]
    beside.exact()
    beside.workload.process.stdin.close()
    test.assertIn('"launches":100', beside.workload.line())


# The program's own malloc


def malloc_of_the_programs_own(test, beside):
    """Nothing of ours calls malloc where the program launches, forks or ends."""
    report = beside.bench.folder / "malloc-report"
    beside.start(LD_PRELOAD=BUILD / "workloads" / "libmalloc_watch.so", MALLOC_WATCH_REPORT=report)
    beside.attach("-linger", "0s")
    beside.exact(("small_threads 5", 20), "fork_exit 2")
    beside.exact()
    beside.end()
    calls = {name: int(count) for name, count in (line.split() for line in report.read_text().splitlines())}
    test.assertGreater(calls["all"], 100)
    test.assertGreater(calls["start"], 0)  # so the watch does see the shim
    test.assertEqual(calls["program"], 0, calls)
    test.assertLessEqual(calls["pillion-control"], 4, calls)  # pthread_create, twice


ROWS = [
    exact("nothing"),
    row(handler_of_every_signal),
    row(faults_on_purpose),
    exact("profiling_timer_1_khz", ["profiling_timer"]),
    row(alarm_timer_1_khz),
    exact("launches_in_a_handler", armed=[("launch_from_handler 50", 50)]),
    exact("sigchld_handler", armed=["children_end 10"]),
    row(descriptors_exhausted_before_start),
    refused("descriptors_exhausted_before_arming", "exhaust_fds", "free_fds", "no file descriptor"),
    exact("file_size_limit_0", ["limit_file_size 0"]),
    refused("address_space_full", "limit_address_space +4096", "limit_address_space none", "memory"),
    refused("data_limit_full", "limit_data +256", "limit_data none", "memory"),
    refused("no_more_threads", "limit_processes 1", "limit_processes none", "no thread could be started",
            first=[f"drop_user {USER}"], skip=NEEDS_ROOT),
    inert("no_threads_at_start", [f"drop_user {USER}", "limit_processes 1"], "inert: no thread could be started",
          skip=NEEDS_ROOT),
    exact("core_limit_0", ["limit_core 0"], ["limit_core none"]),
    exact("stack_limit_128_kib", wrapper=["prlimit", "--stack=131072"]),
    exact("stack_limit_none", wrapper=["prlimit", "--stack=unlimited"]),
    row(closed_before_the_attach),
    row(closed_while_asleep),
    row(closed_while_armed),
    row(reused_before_the_attach),
    row(reused_while_armed),
    exact("umask_0777", ["umask"]),
    exact("chdir", attached=["chdir /"]),
    row(chroot_before_the_first_window, NEEDS_ROOT),
    exact_again("chroot_after_a_window", "chroot {}", skip=NEEDS_ROOT),
    exact_again("user_dropped", f"drop_user {USER}", skip=NEEDS_ROOT),
    exact_again("capabilities_dropped", "drop_capabilities"),
    exact_again("user_and_all_privileges_dropped", f"drop_user {USER}", "drop_capabilities", "not_dumpable",
                "no_new_privileges", skip=NEEDS_ROOT),
    exact("not_dumpable", ["not_dumpable"]),
    exact("no_new_privileges", ["no_new_privileges"]),
    exact("environment_cleared", attached=["clear_environment"]),
    exact("thread_renamed", attached=["rename_thread renamed"], armed=["rename_thread again"]),
    exact("locale_and_time_zone", attached=["change_locale Asia/Tokyo"], armed=["change_locale America/Lima"]),
    inert("proc_hidden_before_start", ["hide_proc"], "inert: /proc does not tell who we are", skip=NEEDS_ROOT,
          wrapper=PRIVATE_MOUNTS),
    row(proc_hidden_while_attached, NEEDS_ROOT),
    row(proc_of_others_is_let_alone, NEEDS_ROOT),
    exact("proc_with_hidepid", ["hide_other_pids"], skip=NEEDS_ROOT, wrapper=PRIVATE_MOUNTS),
    exact("threads_with_16_kib", armed=[("small_threads 40", 160)]),
    exact("detached_threads_that_end", armed=[("detached_threads 200", 800)]),
    row(main_thread_gone),
    exact("children_of_every_kind", attached=["fork_exit 2"],
          armed=["fork_exit 5", "vfork_exec", "raw_clone", "double_fork"]),
    row(fork_while_arming),
    row(daemon_before_cuinit),
    row(daemon_while_attached),
    row(malloc_of_the_programs_own),
]


class EnvironmentTest(ProfileTest):
    def test_rows(self):
        run_rows(self, ROWS)


if __name__ == "__main__":
    main()
