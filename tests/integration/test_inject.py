# SPDX-License-Identifier: Apache-2.0
"""The shim comes into a program that was started without it, and its profile is that of one that had it."""
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from harness import PILLION, SHIM, SIMGPU, Bench, ProfileTest, Window, functions, main, total, wait_until, whole_run, windows_open


def injections(sidecar):
    return sidecar.get_json("/status")["injections"]


def wait_injected(sidecar):
    wait_until(lambda: [view for view in injections(sidecar) if view["outcome"] == "injected"],
               "the shim to be injected", 20)
    return injections(sidecar)[0]


def wait_for_driver(pid):
    """Until the double's driver is loaded and has a context: the workload is past its start."""
    def ready():
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                return "nvidia-uvm" in maps.read()
        except FileNotFoundError:
            return False
    wait_until(ready, "the workload to have a context", 20)


class InjectTest(ProfileTest):
    def run_injected(self, bench, name, *arguments, seconds=5, sockets=True):
        """As harness.whole_run, but the shim is injected once the workload has loaded its modules."""
        start, end = bench.folder / f"start-{bench.count}", bench.folder / f"end-{bench.count}"
        workload = bench.workload(name, *arguments, "--start-file", start, "--end-file", end, shim=False,
                                  PILLION_SOCKET_DIR=None)
        wait_for_driver(workload.pid)
        if not sockets:
            bench.sockets = bench.folder / "none"  # there is no such folder
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-inject", "-pid", str(workload.pid))
        sidecar.wait_ready()
        answer = {}
        thread = threading.Thread(target=lambda: answer.update(profile=sidecar.profile(seconds)))
        thread.start()
        try:
            wait_until(lambda: windows_open(sidecar) == 1, "the window to be open")
            wait_until(lambda: sidecar.get_json("/status")["processes"][0]["state"] == "armed", "it to be armed", 20)
            start.touch()
        finally:
            thread.join()
            end.touch()
        return answer["profile"], workload, sidecar

    def assert_same(self, injected, preset):
        """Only the window differs."""
        for name in ("launches", "executions", "joined", "pending", "launched_before_session", "modules_stored"):
            self.assertEqual(injected["quality"][name], preset["quality"][name], name)

        def rows(profile):
            return sorted((row["name"], row["system_name"], row["launches"], row["gpu_time_ns"])
                          for row in profile["kernels"])
        self.assertEqual(rows(injected), rows(preset))

        def stacks(profile):
            return {tuple(functions(profile, stack)) for stack in profile["stacks"]}
        self.assertEqual(stacks(injected), stacks(preset))

    def check_whole_run(self, name, *arguments):
        """Injected, and beside it prepared."""
        with Bench() as bench, Bench() as other, ThreadPoolExecutor(1) as beside:
            preset = beside.submit(whole_run, other, name, *arguments, seconds=6)
            profile, workload, sidecar = self.run_injected(bench, name, *arguments, seconds=6)
            truth = workload.truth()["simgpu"]
            self.assertGreater(truth["executions"], 0)
            self.assertEqual(profile["quality"]["joined"], truth["executions"])
            self.assertEqual(total(profile), truth["gpu_ns"])
            self.assert_all_rooted(profile)
            view = wait_injected(sidecar)
            self.assertEqual(view["pid"], workload.pid)
            self.assertRegex(view["library"], r"^/proc/thread-self/fd/\d+$")
            self.assertTrue(view["socket"].startswith(str(bench.sockets)), view)
            self.assert_same(profile, preset.result()[0])

    def test_launches(self):
        self.check_whole_run("launch_loop", "--iterations", 2000, "--rate", 2000)

    def test_copies(self):
        self.check_whole_run("copies", "--iterations", 300)

    def test_deep_stacks(self):
        self.check_whole_run("deep_stacks", "--iterations", 500, "--rate", 500)

    def test_graphs(self):
        self.check_whole_run("graph_replay", "--iterations", 100, "--rate", 100, "--nodes", 20)

    def test_without_a_shared_directory(self):
        with Bench() as bench:
            profile, workload, sidecar = self.run_injected(bench, "launch_loop", "--iterations", 500, "--rate", 500, sockets=False)
            self.assert_exact(profile, workload.truth())
            self.assertRegex(wait_injected(sidecar)["socket"], r"^@pillion-\d+-\d+-\d+\.sock$")

    def test_a_later_sidecar_finds_the_shim(self):
        for sockets in (True, False):
            with self.subTest(shared_directory=sockets), Bench() as bench:
                stepped = bench.stepped(shim=False, PILLION_SOCKET_DIR=None)
                pid = str(stepped.pid)
                if not sockets:
                    bench.sockets = bench.folder / "none"
                first = bench.sidecar("-inject", "-pid", pid)
                first.wait_ready(20)
                self.assertEqual(wait_injected(first)["outcome"], "injected")
                first.process.send_signal(signal.SIGTERM)
                first.process.wait(20)
                for flags in (["-inject"], []):
                    # Finalizing waits for a call of the program, which makes none between two windows.
                    later = bench.sidecar("-pid", pid, "-finalize", "never", *flags)
                    later.wait_ready(20)
                    if flags:
                        wait_until(lambda: injections(later), "the outcome")
                        self.assertEqual([view["outcome"] for view in injections(later)], ["already there"])
                    with Window(later, 3) as window:
                        later.wait_state(stepped.pid, "armed", 20)
                        stepped.launch(100)
                        profile = window.take()
                    self.assert_launches(profile, 100)
                    later.process.send_signal(signal.SIGTERM)
                    later.process.wait(20)
                with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                    copies = [line for line in maps if "libpillion.so" in line and " 00000000 " in line]
                self.assertEqual(len(copies), 1)
                stepped.truth()

    def test_cupti_is_brought_along(self):
        """A program without CUPTI anywhere gets the one that is shipped with the sidecar."""
        with Bench() as bench:
            driver, shipped = bench.folder / "driver", bench.folder / "shipped"
            driver.mkdir()
            (shipped / "cupti" / "13.0").mkdir(parents=True)
            shutil.copy(SIMGPU / "libcuda.so.1", driver)
            shutil.copy(PILLION, shipped)
            shutil.copy(SHIM, shipped)
            cupti = shipped / "cupti" / "13.0" / "libcupti.so.13"
            shutil.copy(SIMGPU / "libcupti.so.13", cupti)
            stepped = bench.stepped(shim=False, PILLION_SOCKET_DIR=None, LD_LIBRARY_PATH=driver)
            sidecar = bench.sidecar("-inject", "-pid", str(stepped.pid), program=shipped / "pillion")
            sidecar.wait_ready(20)
            self.assertEqual(wait_injected(sidecar)["cupti"], str(cupti))
            with Window(sidecar, 3) as window:
                sidecar.wait_state(stepped.pid, "armed", 20)
                stepped.launch(100)
                profile = window.take()
            self.assert_launches(profile, 100)
            self.assert_all_rooted(profile)
            used = profile["quality"]["cupti_path"]
            self.assertRegex(used, r"^/proc/thread-self/fd/\d+$")
            [process] = sidecar.get_json("/status")["processes"]
            self.assertEqual(process["cupti"]["path"], used)
            stepped.truth()

    def test_two_sidecars_at_once(self):
        with Bench() as bench:
            stepped = bench.stepped(shim=False, PILLION_SOCKET_DIR=None)
            pid = str(stepped.pid)
            both = [bench.sidecar("-inject", "-pid", pid, "-wait-for-shim", "0") for _ in range(2)]

            def outcomes():
                return [view["outcome"] for sidecar in both for view in injections(sidecar)]
            for sidecar in both:
                wait_until(lambda s=sidecar: s.request("/healthz")[0] == 200, "the sidecar to answer")
            wait_until(lambda: len(outcomes()) == 2 and "in progress" not in outcomes(), "both outcomes", 30)
            self.assertIn("injected", outcomes())
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                copies = [line for line in maps if "libpillion.so" in line and " 00000000 " in line]
            self.assertEqual(len(copies), 1)
            stepped.truth()

    def test_detached_and_attached_again(self):
        with Bench() as bench:
            stepped = bench.stepped(shim=False, PILLION_SOCKET_DIR=None)
            sidecar = bench.sidecar("-inject", "-pid", str(stepped.pid), "-linger", "0s")
            sidecar.wait_ready(20)
            for count in (50, 70):
                with Window(sidecar, 3) as window:
                    sidecar.wait_state(stepped.pid, "armed", 20)
                    stepped.launch(count)
                    profile = window.take()
                self.assert_launches(profile, count)
                self.assert_all_rooted(profile)
                sidecar.wait_state(stepped.pid, "connected")
            stepped.truth()

    def test_a_program_that_is_prepared_is_left_to_its_driver(self):
        with Bench() as bench:
            stepped = bench.stepped()
            sidecar = bench.sidecar("-inject", "-pid", str(stepped.pid))
            sidecar.wait_ready(20)
            with Window(sidecar, 3) as window:
                sidecar.wait_state(stepped.pid, "armed", 20)
                stepped.launch(10)
                profile = window.take()
            self.assert_launches(profile, 10)
            self.assertNotIn("injected", [view["outcome"] for view in injections(sidecar)])
            stepped.truth()


if __name__ == "__main__":
    main(at_once=4)
