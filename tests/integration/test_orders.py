# SPDX-License-Identifier: Apache-2.0
"""Who comes when: sidecars before, with and after the workload, beside and after one another. One row, one test.

tests/README.md has the rows in a table."""
import contextlib
import os
import pathlib
import signal
import socket
import struct
import time

from handshake_rig import LONG, Rig, Sidecar, Stepped, check_window, in_parallel
from harness import Bench, ProfileTest, Window, main, wait_until
from shim_side import CallLog


def attached(bench, *flags):
    sidecar = bench.sidecar("-wait-for-shim", "60s", *flags)
    sidecar.wait_ready(30)
    return sidecar


def open_files(pid):
    """The base names of the files that a process has open."""
    names = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            names.add(pathlib.Path(os.readlink(link)).name)
    return names


class OrderTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.stderr = open(self.bench.folder / "stderr", "w+b")
        self.addCleanup(self.stderr.close)

    def stepped(self, **environment):
        return self.bench.stepped(popen={"stderr": self.stderr}, **environment)

    def check_unharmed(self, *workloads):
        for workload in workloads:
            workload.launch(5)
            self.assertEqual(workload.truth(60)["launches"], workload.launches)
        self.stderr.seek(0)
        self.assertEqual(self.stderr.read(), b"")

    def test_sidecar_first(self):
        """30 s before the workload (3 s without --long)."""
        sidecar = self.bench.sidecar("-wait-for-shim", "120s")
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > (30 if LONG else 3), "the workload's turn", 60)
        self.assertEqual((sidecar.request("/healthz")[0], sidecar.request("/readyz")[0]), (200, 503))
        status, _, body = sidecar.request("/profile?seconds=1")
        self.assertEqual(status, 503, body)
        workload = self.stepped()
        sidecar.wait_ready(10)
        check_window(sidecar, workload, 200)
        self.check_unharmed(workload)

    def test_both_at_once(self):
        """20 times (200 with --long), one or the other a little earlier."""
        def run(row):
            with Rig() as rig:
                if row % 2 == 0:
                    workload, started = rig.start_workload(), rig.start_sidecar()
                else:
                    started, workload = rig.start_sidecar(), rig.start_workload()
                stepped, sidecar = Stepped(workload), Sidecar(*started)
                sidecar.wait_ready(30)
                check_window(sidecar, stepped, 50)
                rig.check_unharmed(stepped)

        self.assertEqual(in_parallel(range(200 if LONG else 20), run, 4), {})

    def test_workload_first_and_aged(self):
        """An hour of launches, as far as anything here can tell: correlation ids about to wrap, 300,000 launches made."""
        workload = self.stepped(SIMGPU_CORRELATION_START=(1 << 32) - 300_000 - 100)
        for _ in range(300):
            workload.launch(1_000)
        sidecar = attached(self.bench)
        check_window(sidecar, workload, 1_000)
        check_window(sidecar, workload, 1_000)
        self.check_unharmed(workload)

    def test_cuinit_returns_after_the_socket_is_there(self):
        """What a sidecar needs exists before CUDA is initialised, however slow it comes into being."""
        with Rig() as rig:
            began = time.monotonic()
            stepped = Stepped(rig.start_workload("-delay-ms", "2000", "-seed", "3", "-delays", "3", "-delay-only",
                                                 "socket,bind,listen"))
            sockets = rig.bench.shim_sockets()
            delays = sum(int(line.split()[4]) for line in rig.shim_steps.lines() if line[0].isdigit())
            self.assertGreater(time.monotonic() - began, delays / 1000)
            self.assertGreater(delays, 1000)
            self.assertEqual(len(sockets), 1)
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as peer:
                peer.settimeout(5)
                peer.connect(str(sockets[0]))
                self.assertEqual(struct.unpack_from("<I", peer.recv(65536), 8)[0], 1)  # HELLO
            rig.check_unharmed(stepped)

    def test_cuinit_from_32_threads(self):
        start, end = self.bench.folder / "start", self.bench.folder / "end"
        workload = self.bench.workload("init_race", "--threads", "32", "--iterations", "50", "--start-file", start,
                                       "--end-file", end, popen={"stderr": self.stderr})
        sidecar = attached(self.bench)
        self.assertEqual(len(self.bench.shim_sockets()), 1)
        names = [path.read_text() for path in pathlib.Path(f"/proc/{workload.pid}/task").glob("*/comm")]
        self.assertEqual(names.count("pillion-control\n"), 1)
        with Window(sidecar, 3) as window:
            sidecar.wait_state(workload.pid, "armed")
            start.touch()
        end.touch()
        profile = window.take()
        self.assert_exact(profile, workload.truth())
        self.assert_all_rooted(profile)
        self.assertEqual(profile["quality"]["launches"], 32 * 50)

    def test_socket_directory_comes_later(self):
        """A shim without a directory stays inert, and who asks for a profile is told; sidecars wait for one."""
        self.bench.sockets.rmdir()
        inert = self.stepped()
        sidecar = self.bench.sidecar("-wait-for-shim", "60s")
        status, _, body = sidecar.request("/profile?seconds=1")
        self.assertEqual(status, 503, body)
        self.assertIn(b"No such file or directory", body)
        self.assertIn(str(inert.pid).encode(), body)
        self.assertIn(b"it has to be started again", body)
        names = [path.read_text() for path in pathlib.Path(f"/proc/{inert.pid}/task").glob("*/comm")]
        self.assertEqual([name for name in names if name.startswith("pillion")], [])
        self.bench.sockets.mkdir()
        workload = self.stepped()
        sidecar.wait_ready(10)
        check_window(sidecar, workload, 100)
        self.check_unharmed(inert, workload)

    def test_socket_left_by_a_dead_process(self):
        dead = self.bench.workload("launch_loop", "--seconds", "0", "--rate", "100", popen={"stderr": self.stderr})
        wait_until(self.bench.shim_sockets, "the shim's socket")
        dead.process.kill()
        dead.finish()
        self.assertEqual(len(self.bench.shim_sockets()), 1)
        sidecar = self.bench.sidecar("-wait-for-shim", "60s")
        wait_until(lambda: sidecar.get_json("/status")["socket_directory"]["stale"] == 1, "the dead one to be seen")
        self.assertEqual(sidecar.request("/readyz")[0], 503)
        workload = self.stepped()
        sidecar.wait_ready(10)
        check_window(sidecar, workload, 100)
        self.assertIsNone(sidecar.process_state(dead.pid))
        self.check_unharmed(workload)

    def test_second_sidecar_takes_over(self):
        """Beside a first one it is told who holds the shim; when that is killed in a window, it has its own at once."""
        workload = self.stepped()
        first = attached(self.bench)
        second = self.bench.sidecar("-wait-for-shim", "60s")
        wait_until(lambda: f"pid {first.process.pid}" in str(second.get_json("/status")), "the holder to be named")
        self.assertEqual(second.request("/readyz")[0], 503)
        with Window(first, 60):
            workload.launch(100)
            killed = time.monotonic()
            first.process.kill()
        second.wait_ready(5)
        check_window(second, workload, 300)  # the first one's session is perhaps still being ended
        self.assertLess(time.monotonic() - killed, 15)
        self.check_unharmed(workload)

    def test_sidecar_restarted_in_mid_session(self):
        """Killed inside a window, a new one at once with a window at once; then two profiles in a row."""
        workload = self.stepped()
        for round_number in range(10 if LONG else 3):
            with self.subTest(round_number):
                first = attached(self.bench)
                with Window(first, 60):
                    workload.launch(100)
                    first.process.kill()
                second = attached(self.bench)
                check_window(second, workload, 300)
                check_window(second, workload, 200)
                second.process.kill()
        self.check_unharmed(workload)

    def test_clients_that_hang_up(self):
        """At once, after HELLO, with garbage, in the middle of ARM: the next sidecar finds the shim asleep."""
        workload = self.stepped()
        [path] = self.bench.shim_sockets()
        header = struct.pack("<IHHII", 0x4E4C4950, 1, 0, 0, 0)
        for number in range(200):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            peer.settimeout(5)
            try:
                peer.connect(str(path))
                if number % 4 == 1:
                    peer.recv(65536)
                elif number % 4 == 2:
                    peer.send(b"GET / HTTP/1.1\r\n\r\n")
                elif number % 4 == 3:
                    peer.send(header + b"\0" * 56)
            except OSError:
                pass  # it hung up first
            peer.close()
        sidecar = attached(self.bench)
        check_window(sidecar, workload, 200)
        self.check_unharmed(workload)

    def test_clients_dead_in_the_queue_of_a_stopped_shim(self):
        """A sidecar behind seven that died while the workload was stopped is not told that one of these holds it."""
        workload = self.stepped()
        [path] = self.bench.shim_sockets()
        os.kill(workload.pid, signal.SIGSTOP)
        try:
            for _ in range(7):
                with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as peer:
                    peer.connect(str(path))
            live = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(live.close)
            live.settimeout(10)
            live.connect(str(path))
        finally:
            os.kill(workload.pid, signal.SIGCONT)
        self.assertEqual(struct.unpack_from("<I", live.recv(65536), 8)[0], 1)  # HELLO, not BUSY
        live.close()
        check_window(attached(self.bench), workload, 100)
        self.check_unharmed(workload)

    def test_program_that_is_gone_before_its_stacks_are_walked(self):
        """Its files were fetched when it was armed: nothing is left to ask for."""
        log = CallLog(self.bench.folder / "calls")
        workload = self.stepped(SIMGPU_CALL_LOG=log.path)
        sidecar = attached(self.bench)
        needed = {"stepped", "libcuda.so.1", "libcupti.so.13", "libpillion.so", "libc.so.6"}
        with Window(sidecar, 3) as window:
            wait_until(lambda: needed <= open_files(sidecar.process.pid), "its files to have been fetched")
            os.kill(sidecar.process.pid, signal.SIGSTOP)
            try:
                workload.launch(50)
                flushes = len(log.calls("cuptiActivityFlushAll"))
                wait_until(lambda: len(log.calls("cuptiActivityFlushAll")) > flushes + 1, "the records to be flushed")
                workload.process.kill()
                workload.process.wait(10)
            finally:
                os.kill(sidecar.process.pid, signal.SIGCONT)
        profile = window.take()
        quality = profile["quality"]
        self.assertEqual((quality["launches"], quality["joined"]), (50, 50))
        self.assert_all_rooted(profile)

    def test_max_sessions(self):
        """Four processes, room for two: the others are counted and named, and take the room when it is free."""
        workloads = [self.stepped() for _ in range(4)]
        sidecar = attached(self.bench, "-max-sessions", "2", "-linger", "0s")
        wait_until(lambda: len(sidecar.get_json("/status")["processes"]) == 4, "all four to be attached")

        def armed():
            return [process["pid"] for process in sidecar.get_json("/status")["processes"]
                    if process["state"] == "armed"]

        with Window(sidecar, 6) as window:
            wait_until(lambda: len(armed()) == 2, "two to be armed")
            chosen = armed()
            for workload in workloads:
                workload.launch(30)
            ending = next(workload for workload in workloads if workload.pid in chosen)
            ending.truth()
            wait_until(lambda: len(armed()) == 2 and set(armed()) != set(chosen), "a third one to take the room")
            third = next(workload for workload in workloads if workload.pid in armed() and workload.pid not in chosen)
            third.launch(40)
        profile = window.take()
        self.assertEqual(profile["quality"]["launches"], 30 + 30 + 40)
        self.assertEqual(profile["quality"]["targets_skipped"], 1)
        self.check_unharmed(*(workload for workload in workloads if workload is not ending))


if __name__ == "__main__":
    main(at_once=3)
