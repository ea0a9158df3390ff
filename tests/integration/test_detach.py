# SPDX-License-Identifier: Apache-2.0
"""How CUPTI is left: finalized where the program survives it, else not, said why; nothing of ours stays behind.

The double ends the program by abort() where finalizing killed it on a GPU, so a wrong choice fails its row."""
import os
import pathlib
import re
import subprocess
import time

from harness import Bench, ProfileTest, Window, main, wait_until
from losses import details
from shim_side import CallLog

MIB = 1 << 20
ARENA = 64 * MIB  # of libc's malloc: one for each thread that meets another in it, CUPTI's calls on ours included


def mappings(pid):
    """[(start, end, path or "")] of /proc/PID/maps."""
    rows = []
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(None, 5)
        start, end = (int(address, 16) for address in fields[0].split("-"))
        rows.append((start, end, fields[5] if len(fields) > 5 else ""))
    return rows


def new_anonymous(before, after):
    """Sizes of anonymous memory in `after` where nothing was mapped in `before`, but malloc's arenas and libraries' tails."""
    tails = {end for _, end, path in after if path.startswith("/")}
    sizes = []
    for start, end, path in after:
        if path or start in tails:
            continue
        at = start
        for low, high in sorted((max(start, b), min(end, e)) for b, e, _ in before if b < end and e > start) + [(end, end)]:
            arena = any(s <= at < s + ARENA for s, _, p in after if not p and s % ARENA == 0)
            if low > at and not arena:
                sizes.append(low - at)
            at = max(at, high)
    return sizes


def threads(pid):
    return sorted(pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip()
                  for task in os.listdir(f"/proc/{pid}/task"))


def library_kib(pid):
    """Private memory of libpillion.so, the zeroed tail of its data included."""
    total, ours, end = 0, False, None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+\s*(.*)", line)
        if head:
            ours = "libpillion.so" in head[3] or (not head[3] and ours and head[1] == end)
            end = head[2]
        elif ours and line.startswith(("Private_Dirty:", "Private_Clean:")):
            total += int(line.split()[1])
    return total


class DetachTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.log = CallLog(self.bench.folder / "calls")
        self.stderr = open(self.bench.folder / "stderr", "w+b")
        self.addCleanup(self.stderr.close)

    def start(self, name, *arguments, **environment):
        return self.bench.workload(name, "--seconds", "0", *arguments, SIMGPU_CALL_LOG=self.log.path,
                                   popen={"stderr": self.stderr}, **environment)

    def sidecar(self, *flags):
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s", *flags)
        sidecar.wait_ready()
        return sidecar

    def check_silent(self):
        self.stderr.seek(0)
        self.assertEqual(self.stderr.read(), b"")

    def end(self, workload):
        workload.stop()
        self.assertEqual(workload.finish(), 0, workload.output())
        self.check_silent()

    def last_disarm(self, sidecar, pid):
        """What /status says of the detach, once it is over."""
        def said():
            for process in sidecar.get_json("/status")["processes"]:
                if process["pid"] == pid and process["state"] == "connected":
                    return process["last_disarm"]
            return None

        return wait_until(said, "the detach to be over", 10)

    def row(self, residue, *arguments, windows=2, flags=(), **environment):
        """One row of the table of detaches: a program at full work, its windows, what each detach says."""
        workload = self.start("checked", "--round", "4", *arguments, **environment)
        sidecar = self.sidecar(*flags)
        for _ in range(windows):
            profile = sidecar.profile(1)
            self.assertGreater(profile["quality"]["executions"], 0)
            self.assertIn(residue, self.last_disarm(sidecar, workload.pid))
            self.assertIsNone(workload.process.poll())
        lines = len(workload.output().splitlines())
        # It says every 100 ms how far it is: replays go on that would meet what a finalize took away.
        wait_until(lambda: len(workload.output().splitlines()) > lines + 2, "the program to go on")
        self.end(workload)
        self.assertEqual(len(self.log.calls("cuptiFinalize")), windows if "CUPTI finalized" in residue else 0)
        self.assertEqual(self.log.calls("left_module_profiled"), [])
        return profile

    def test_kernels_from_four_threads(self):
        self.row("nothing, CUPTI finalized", "--threads", "4", "--graphs", "0")

    def test_modules_that_load_to_the_end(self):
        """Their bytes are being asked for when the session ends: no longer when CUPTI is left."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        workload = self.bench.workload("modules", popen=pipes, SIMGPU_CALL_LOG=self.log.path)

        def tell(command):
            workload.process.stdin.write(f"{command}\n".encode())
            workload.process.stdin.flush()
            self.assertEqual(workload.process.stdout.readline().decode(), f"{command}\n")

        self.assertEqual(workload.process.stdout.readline(), b"ready\n")
        sidecar = self.sidecar()
        number = 0
        with Window(sidecar, 1) as window:
            while window.thread.is_alive() or not self.log.calls("cuptiFinalize"):
                number += 1
                for command in ("load", "launch", "unload"):
                    tell(f"{command} {number}")
        self.assertGreater(window.take()["quality"]["modules_stored"], 0)
        self.assertIn("CUPTI finalized", self.last_disarm(sidecar, workload.pid))
        self.assertEqual(self.log.calls("left_module_profiled"), [])
        workload.process.communicate(timeout=20)
        self.assertEqual(workload.process.returncode, 0)
        self.check_silent()

    def test_one_thread_replays_graphs(self):
        self.row("nothing, CUPTI finalized", "--threads", "1", "--graphs", "1")

    def test_one_thread_replays_nothing_but_graphs(self):
        """The next call after the offer is a replay: had kinds been disabled by then, finalizing in it would kill."""
        workload = self.start("graph_replay", "--rate", "2000", "--nodes", "4")
        sidecar = self.sidecar()
        for _ in range(2):
            sidecar.profile(1)
            self.assertIn("nothing, CUPTI finalized", self.last_disarm(sidecar, workload.pid))
            self.assertIsNone(workload.process.poll())
        self.end(workload)
        self.assertEqual(len(self.log.calls("cuptiFinalize")), 2)

    def test_one_thread_replays_graphs_beside_three_that_launch_kernels(self):
        self.row("nothing, CUPTI finalized", "--threads", "4", "--graphs", "1", windows=3)

    def test_two_threads_replay_graphs(self):
        profile = self.row("several threads replay graphs", "--threads", "2", "--graphs", "2")
        [said] = details(profile, "detach_residue")
        self.assertIn("several threads replay graphs", said)

    def test_records_that_flood(self):
        """A flush does not return while records come as fast: there must be none, and the session ends all the same."""
        capacity, attempts = 500_000, 3  # as on a GPU: 400,000 were borne, 700,000 were not
        few = 5  # flushes: before the flood is known, and where this machine paused in it
        for _ in range(attempts):
            flushes_before = len(self.log.calls("cuptiActivityFlushAll"))
            workload = self.start("graph_replay", "--threads", "2", "--nodes", "1000", SIMGPU_KERNEL_NS=50,
                                  SIMGPU_LAUNCH_LATENCY_NS=100, SIMGPU_FLUSH_CAPACITY=capacity)
            sidecar = self.sidecar("-events-ring-kib", "256")
            begin = time.monotonic()
            quality = sidecar.profile(2)["quality"]
            self.assertLess(time.monotonic() - begin, 6)
            self.assertIn("several threads replay graphs", self.last_disarm(sidecar, workload.pid))
            self.end(workload)
            sidecar.process.terminate()
            sidecar.process.wait(10)
            flushes = len(self.log.calls("cuptiActivityFlushAll")) - flushes_before
            if quality["executions"] + quality["dropped_executions_full"] > 2 * capacity and flushes < few:
                return
        self.fail(f"{attempts} times {few} flushes or more, or no {capacity} records a second")

    def test_old_cupti_with_graphs(self):
        self.row("too old to finalize after graphs", "--threads", "1", "--graphs", "1", SIMGPU_CUPTI_VERSION=18)

    def test_old_cupti_without_graphs(self):
        self.row("nothing, CUPTI finalized", "--threads", "2", "--graphs", "0", SIMGPU_CUPTI_VERSION=18)

    def test_finalize_never(self):
        self.row("finalize was not asked for", "--threads", "1", "--graphs", "1", flags=("-finalize", "never"))

    def test_finalize_never_holds_when_the_sidecar_is_killed(self):
        workload = self.start("launch_loop", "--rate", "2000")
        sidecar = self.sidecar("-finalize", "never")
        self.assertEqual(sidecar.get_json("/status")["finalize"], "never")
        with Window(sidecar, 30):
            wait_until(lambda: sidecar.metric("pillion_executions_total") > 100, "executions")
            sidecar.process.kill()
        wait_until(lambda: self.log.calls("cuptiUnsubscribe"), "the shim to let go", 5)
        self.end(workload)
        self.assertEqual(self.log.calls("cuptiFinalize"), [])

    def test_graphs_after_a_detach_that_could_not_finalize(self):
        """Kinds were disabled while a graph was replayed: from then on a finalize may kill."""
        workload = self.start("checked", "--round", "4", "--threads", "1", "--graphs", "1")
        first = self.sidecar("-finalize", "never")
        first.profile(1)
        self.assertIn("not asked", self.last_disarm(first, workload.pid))
        first.process.terminate()
        first.process.wait(10)
        second = self.sidecar()
        second.profile(1)
        self.assertIn("an earlier detach could not finalize", self.last_disarm(second, workload.pid))
        self.end(workload)
        self.assertEqual(self.log.calls("cuptiFinalize"), [])

    def stepped(self):
        return self.bench.stepped(SIMGPU_CALL_LOG=self.log.path, popen={"stderr": self.stderr})

    def idle_at_its_detach(self):
        """A program in which CUPTI could not be finalized, and its sidecar."""
        workload = self.stepped()
        sidecar = self.sidecar()
        with Window(sidecar, 1) as window:
            workload.launch(100)
        self.assert_launches(window.take(), 100)
        ended = time.monotonic()
        self.assertIn("no API call came", self.last_disarm(sidecar, workload.pid))
        self.assertLess(time.monotonic() - ended, 3)
        return workload, sidecar

    def test_no_api_call_comes(self):
        """Nobody waits for one for long; the calls that come later find nothing pending."""
        workload, sidecar = self.idle_at_its_detach()
        workload.launch(500)
        self.assertEqual(self.log.calls("cuptiFinalize"), [])
        with Window(sidecar, 1) as window:  # the finalize that was called off does not end this session
            workload.launch(700)
        self.assert_launches(window.take(), 700)
        workload.truth()
        self.check_silent()

    def test_an_idle_program_is_finalized_once_it_works_again(self):
        """Nobody asks for a profile any more; its launches must not stay slower for that."""
        workload, sidecar = self.idle_at_its_detach()

        def finalized():
            workload.launch(10_000)
            return self.log.calls("cuptiFinalize")

        wait_until(finalized, "CUPTI to be finalized late", 60, every=0.001)
        wait_until(lambda: "CUPTI finalized" in self.last_disarm(sidecar, workload.pid), "it to be said")
        with Window(sidecar, 1) as window:
            workload.launch(300)
        self.assert_launches(window.take(), 300)
        workload.truth()
        self.check_silent()

    def descriptors(self, pid):
        """Where they lead to, but for the double's own log."""
        targets = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
        return sorted(target for target in targets if target != str(self.log.path))

    def test_nothing_stays_behind(self):
        workload = self.stepped()
        sidecar = self.sidecar()
        workload.launch(10)
        files = self.descriptors(workload.pid)
        before, threads_before = mappings(workload.pid), threads(workload.pid)
        for cycle in range(1, 4):
            with Window(sidecar, 1) as window:
                workload.launch(2000)
                self.assertIn("pillion-capture", threads(workload.pid))
                self.assertGreater(sum(new_anonymous(before, mappings(workload.pid))), 16 * MIB)
            self.assert_launches(window.take(), 2000)

            def finalized():
                workload.launch(1)
                return len(self.log.calls("cuptiFinalize")) == cycle

            wait_until(finalized, "CUPTI to be finalized")
            self.assertIn("nothing, CUPTI finalized", self.last_disarm(sidecar, workload.pid))
            after = mappings(workload.pid)
            page, stack = 4096, 8 * MIB  # of the double's own thread: guard and stack
            self.assertEqual([size for size in new_anonymous(before, after) if size not in (page, stack, page + stack)], [])
            rings = {path for _, _, path in after if "memfd:" in path} - {path for _, _, path in before}
            self.assertEqual(rings, set())
            ours = [name for name in threads(workload.pid) if name.startswith("pillion")]
            self.assertEqual(ours, ["pillion-control"])
            self.assertLessEqual(len(threads(workload.pid)), len(threads_before) + 1)  # the double's
            self.assertEqual(self.descriptors(workload.pid), files)
            self.assertLess(library_kib(workload.pid), 3 * 1024)
        workload.truth()
        self.check_silent()


if __name__ == "__main__":
    main(at_once=2)
