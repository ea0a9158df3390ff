# SPDX-License-Identifier: Apache-2.0
"""PILLION_EAGER=1: modules that were loaded, launched from and unloaded before anybody attached are handed over."""
import subprocess

from harness import Bench, ProfileTest, Window, main, wait_until
from shim_side import CallLog, shim_hello


class EagerTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.log = CallLog(self.bench.folder / "calls")

    def start(self, **environment):
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workload = self.bench.workload("modules", popen=popen, SIMGPU_CALL_LOG=self.log.path, **environment)
        self.assertEqual(workload.process.stdout.readline(), b"ready\n", "the program has a context")
        return workload

    def tell(self, workload, *commands):
        for command in commands:
            workload.process.stdin.write(f"{command}\n".encode())
            workload.process.stdin.flush()
            self.assertEqual(workload.process.stdout.readline().decode(), f"{command}\n")

    def end(self, workload):
        workload.process.stdin.close()
        workload.process.stdout.read()
        self.assertEqual(workload.process.wait(20), 0, workload.output())

    def sidecar(self):
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        return sidecar

    def wait_subscribed(self, count=1):
        wait_until(lambda: len([1 for _, name, result in self.log.calls() if name.startswith("cuptiSubscribe")
                                and result == "0"]) >= count, "the shim to have subscribed")

    def stored(self, sidecar):
        """Modules that the sidecar holds: [(bytes, hash)]."""
        return sorted((module["bytes"], module["fnv1a"]) for module in sidecar.get_json("/status")["modules"])

    def run_one(self, **environment):
        """A module comes, runs and goes before anybody attaches; another one while a window is open."""
        workload = self.start(**environment)
        if environment:
            self.wait_subscribed()
        self.tell(workload, "load 1", "launch 1", "unload 1", "load 2", "launch 2")
        sidecar = self.sidecar()
        with Window(sidecar, 1) as window:
            self.tell(workload, "launch 2", "load 3", "launch 3", "unload 3")
        profile = window.take()
        self.assertEqual(profile["quality"]["executions"], 2)
        return workload, sidecar, profile

    def test_unloaded_before_the_attach(self):
        workload, sidecar, profile = self.run_one(PILLION_EAGER="1")
        self.assertEqual(profile["quality"]["modules_stored"], 3)
        self.assertEqual(len(self.stored(sidecar)), 3)
        [socket] = self.bench.shim_sockets()
        self.assertNotEqual(shim_hello(socket)[1], b"")
        # The next attach has them all again, and what went between the two.
        first = self.stored(sidecar)
        self.tell(workload, "launch 2")  # the call that CUPTI may be finalized in
        sidecar.wait_state(workload.pid, "connected")
        self.wait_subscribed(2)
        self.tell(workload, "load 4", "launch 4", "unload 4")
        sidecar.process.terminate()
        sidecar.process.wait(10)
        second = self.sidecar()
        with Window(second, 1) as window:
            self.tell(workload, "launch 2")
        self.assertEqual(window.take()["quality"]["executions"], 1)
        self.assertEqual(len(self.stored(second)), 4)
        self.assertTrue(set(first) <= set(self.stored(second)))
        self.end(workload)

    def test_without_it_they_are_gone(self):
        workload, sidecar, _ = self.run_one()
        self.assertEqual(len(self.stored(sidecar)), 2)
        self.end(workload)

    def test_asleep_it_costs_no_callback_per_launch(self):
        """What it holds while nobody looks: the subscriber, and callbacks of module loads alone."""
        workload = self.start(PILLION_EAGER="1")
        self.wait_subscribed()
        self.tell(workload, "load 1", "launch 1")
        enabled = self.log.calls("cuptiEnableCallback")
        self.assertEqual(len(enabled), 2)
        self.assertEqual(self.log.calls("cuptiActivityEnable"), [])
        self.assertEqual(self.log.calls("cuptiActivityRegisterCallbacks"), [])
        self.end(workload)

    def test_no_call_before_cuinit_has_returned(self):
        """A cuInit that takes its time while a sidecar asks: the double ends a program that calls CUDA or CUPTI meanwhile."""
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workload = self.bench.workload("modules", popen=popen, SIMGPU_CALL_LOG=self.log.path, PILLION_EAGER="1",
                                       SIMGPU_CUINIT_MS="1500")
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        wait_until(lambda: sidecar.process_state(workload.pid) == "connected", "the sidecar to be connected")
        window = Window(sidecar, 4)
        with window:
            self.assertEqual(self.log.calls(), [])
            self.assertEqual(workload.process.stdout.readline(), b"ready\n")
            self.wait_subscribed()
            self.tell(workload, "load 1")
            sidecar.wait_state(workload.pid, "armed")
            self.tell(workload, "launch 1")
        self.assertEqual(window.take()["quality"]["executions"], 1)
        self.end(workload)


if __name__ == "__main__":
    main(at_once=3)
