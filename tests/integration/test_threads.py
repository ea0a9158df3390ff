# SPDX-License-Identifier: Apache-2.0
"""All threads of the sidecar at work at once. Made for ThreadSanitizer (preset tsan): the shim is an ordinary one."""
import signal
import threading

from harness import Bench, ProfileTest, Window, main, total, wait_until


class ThreadsTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)

    def end(self, sidecar):
        """It ends when asked to, with nothing to say about itself."""
        sidecar.process.send_signal(signal.SIGTERM)
        self.assertEqual(sidecar.process.wait(30), 0, sidecar.log()[-8000:])
        self.assertNotIn("Sanitizer", sidecar.log())
        self.assertNotIn("runtime error", sidecar.log())

    def test_everything_at_once(self):
        """Windows that overlap in all formats, readers of the state, workloads that come, end and are killed."""
        steady = self.bench.workload("launch_loop", "--seconds", "0", "--threads", "3", "--streams", "3", "--rate", "3000")
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready(60)
        answers, stop = [], threading.Event()

        def ask(kind, seconds):
            answers.append(sidecar.request(f"/profile?seconds={seconds}&format={kind}")[0])

        def watch():
            while not stop.is_set():
                for path in ("/status", "/metrics", "/healthz", "/readyz", "/"):
                    sidecar.request(path)

        threads = [threading.Thread(target=ask, args=(kind, seconds))
                   for kind in ("pprof", "json", "folded") for seconds in (1, 2)]
        watcher = threading.Thread(target=watch)
        for thread in (*threads, watcher):
            thread.start()
        try:
            for name in ("fork_child", "dlopen_late", "graph_replay"):
                self.bench.workload(name, "--seconds", "1", "--delay", "0.2").finish(60)
            doomed = self.bench.workload("launch_loop", "--seconds", "0", "--rate", "1000")
            wait_until(lambda: sidecar.process_state(doomed.pid), "a process to come", 30)
            doomed.process.kill()
        finally:
            for thread in threads:
                thread.join()
            stop.set()
            watcher.join()
        self.assertEqual(answers, [200] * 6)
        steady.stop()
        self.assertEqual(steady.finish(), 0)
        self.end(sidecar)

    def test_attach_and_detach(self):
        """A few windows with a detach after each: exact, and an end in the middle of one."""
        workload = self.bench.stepped()
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready(60)
        for _ in range(3):
            with Window(sidecar, 2) as window:
                workload.launch(300)
            profile = window.take()
            self.assert_launches(profile, 300)
            self.assertEqual(total(profile, "launches"), 300)
        with Window(sidecar, 30):
            workload.launch(10)
            self.end(sidecar)
        self.assertEqual(workload.truth()["launches"], 910)


if __name__ == "__main__":
    main()
