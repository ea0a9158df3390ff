# SPDX-License-Identifier: Apache-2.0
"""`pillion record`: a command from its first launch on, a running process, whatever ends it, wherever it is written."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from harness import PILLION, Bench, ProfileTest, functions, main, total, wait_until
from recording import Recording, by_kernel, workload


def by_stack(profile):
    """Launches by the names of the stack, leaf first."""
    launches = {}
    for stack in profile["stacks"]:
        names = tuple(functions(profile, stack))
        launches[names] = launches.get(names, 0) + stack["launches"]
    return launches


def sums(truths):
    return sum(t["simgpu"]["executions"] for t in truths), sum(t["simgpu"]["gpu_ns"] for t in truths)


class CommandTest(ProfileTest):
    """record -- command"""

    def assert_whole(self, recording, programs=1, expect=0):
        """Every launch of every program of the command, to the nanosecond."""
        profile = recording.profile(expect)
        truths = recording.truths()
        self.assertEqual(len(truths), programs)
        self.assert_nothing_lost(profile)
        quality = profile["quality"]
        self.assertEqual((quality["joined"], total(profile)), sums(truths))
        self.assertEqual(quality["executions"], quality["joined"])
        return profile

    def test_no_launch_is_lost_from_the_first_one_on(self):
        for threads, iterations in ((1, 1), (1, 10), (8, 4000), (1, 300), (4, 2000)):
            with self.subTest(threads=threads, iterations=iterations), Bench() as bench:
                recording = Recording(bench, "--", *workload("launch_loop", "--threads", threads, "--iterations",
                                                             iterations))
                profile = self.assert_whole(recording)
                self.assertEqual(profile["quality"]["launches"], iterations)
                self.assert_all_rooted(profile)

    def test_programs_and_a_sidecar_in_the_folder_of_the_environment(self):
        """They are in nobody's way: the command's socket has a folder of its own."""
        with Bench() as bench:
            other = bench.stepped()
            sidecar = bench.sidecar()
            sidecar.wait_ready()
            recording = Recording(bench, "--", *workload("launch_loop", "--iterations", 300))
            profile = self.assert_whole(recording)
            self.assertEqual(profile["quality"]["launches"], 300)
            self.assertNotIn(other.pid, [process["pid"] for process in profile["processes"]])
            self.assertIn("PILLION_SOCKET_DIR has no effect", recording.log())
            self.assertNotIn("another sidecar", recording.log() + sidecar.log())
            other.truth()

    def test_two_programs_one_after_the_other(self):
        with Bench() as bench:
            one = " ".join(workload("launch_loop", "--iterations", 200))
            other = " ".join(workload("copies", "--iterations", 3))
            self.assert_whole(Recording(bench, "--", "sh", "-c", f"{one} && {other}"), programs=2)

    def test_four_programs_at_once_of_which_the_last_ends_it(self):
        with Bench() as bench:
            runs = " & ".join(" ".join(workload("launch_loop", "--iterations", 100 * n)) for n in (1, 2, 3, 4))
            self.assert_whole(Recording(bench, "--", "sh", "-c", f"{runs} & wait"), programs=4)

    def test_a_program_that_executes_another(self):
        with Bench() as bench:
            recording = Recording(bench, "--", *workload("exec_other", "--delay", "0.3", "--seconds", "0.3", "--rate",
                                                         2000))
            profile, truths = recording.profile(), recording.truths()
            quality = profile["quality"]
            self.assertEqual(len(truths), 2)
            self.assertEqual(quality["launches"], sum(truth["launches"] for truth in truths))
            # What CUPTI still holds when a program becomes another is lost with it, and said to be pending.
            self.assertEqual(quality["joined"] + quality["pending"], quality["launches"])
            self.assertGreaterEqual(quality["joined"], truths[1]["launches"])
            self.assert_nothing_lost({"quality": {**quality, "pending": 0}})

    def test_what_outlives_the_command_is_recorded_and_left_alone(self):
        with Bench() as bench:
            end = bench.folder / "end"
            inner = " ".join(workload("launch_loop", "--iterations", 500, "--end-file", end))
            recording = Recording(bench, "--", "sh", "-c", f"({inner}) & echo $! > {bench.folder}/pid; sleep 0.2; exit 9")
            recording.wait_for("armed process")
            pid = int(wait_until(lambda: (bench.folder / "pid").exists() and (bench.folder / "pid").read_text(), "pid"))
            wait_until(lambda: not children(recording.process.pid), "the command to have ended")
            self.assertIsNone(recording.process.poll())
            self.assertTrue(pathlib.Path(f"/proc/{pid}").exists())
            end.touch()
            self.assert_whole(recording, expect=9)

    def test_the_exit_status_is_the_commands(self):
        for ending, status in (("exit 7", 7), ("kill -9 $$", 128 + 9), ("exit 0", 0)):
            with self.subTest(ending=ending), Bench() as bench:
                run = " ".join(workload("launch_loop", "--iterations", 50))
                self.assert_whole(Recording(bench, "--", "sh", "-c", f"{run}; {ending}"), expect=status)

    def test_a_command_that_uses_no_gpu_is_5(self):
        with Bench() as bench:
            recording = Recording(bench, "--", "true")
            recording.finish(expect=5)
            self.assertIn("did it use CUDA?", recording.log())
            self.assertFalse(recording.path.exists())

    def test_duration_ends_the_profile_and_not_the_command(self):
        with Bench() as bench:
            recording = Recording(bench, "-duration", "1s", "--", *workload("launch_loop", "--seconds", 60, "--rate", 1000))
            recording.wait_for("waiting for the workload to end")
            profile = json.loads(recording.path.read_text())
            self.assertAlmostEqual(profile["window"]["duration_ns"] / 1e9, 1, delta=0.1)
            self.assertGreater(profile["quality"]["launches"], 100)
            self.assert_nothing_lost({"quality": {**profile["quality"], "pending": 0}})
            recording.process.send_signal(signal.SIGTERM)
            recording.finish()
            self.assertEqual(len(recording.truths()), 1)  # it ended by itself, as the signal asked

    def test_a_recorder_that_dies_while_the_program_waits(self):
        with Bench() as bench:
            run = " ".join(workload("launch_loop", "--iterations", 20))
            recording = Recording(bench, "--", "sh", "-c", f"kill -9 $PPID; {run}; echo status $?")
            recording.process.wait(20)
            wait_until(lambda: "status" in recording.log(), "the program's end", 30)
            self.assertIn("status 0", recording.log())
            self.assertEqual(recording.truths()[0]["launches"], 20)

    def test_a_recorder_that_is_frozen_holds_the_program_up_for_a_bounded_time(self):
        with Bench() as bench:
            run = " ".join(workload("launch_loop", "--iterations", 20))
            recording = Recording(bench, "--", "sh", "-c", f"kill -STOP $PPID; {run}; echo status $?")
            wait_until(lambda: "status" in recording.log(), "the program's end", 60)
            self.assertIn("status 0", recording.log())
            recording.process.send_signal(signal.SIGCONT)
            recording.process.wait(60)

    def test_a_library_of_another_tool_is_not_displaced(self):
        with Bench() as bench:
            recording = Recording(bench, "--", "true", CUDA_INJECTION64_PATH="/opt/tool/libtool.so")
            recording.finish(expect=2)
            self.assertIn("CUDA_INJECTION64_PATH", recording.log())


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


class BothWaysTest(ProfileTest):
    """-pid, and -- command: only the window differs."""

    def both(self, name, *arguments, **environment):
        with Bench() as bench:
            command = Recording(bench, "--", *workload(name, *arguments), name="command.json", **environment).profile()
            start, end = bench.folder / "start", bench.folder / "end"
            running = bench.workload(name, *arguments, "--start-file", start, "--end-file", end, **environment)
            attach = Recording(bench, "-pid", running.pid, "-duration", "1h", name="attach.json")
            attach.wait_for("info recording")
            start.touch()
            wait_until(lambda: '{"workload"' in running.output(), "the workload's last launch", 60)
            attach.process.send_signal(signal.SIGINT)
            profile = attach.profile()  # while the process is there: nobody else could open its files
            end.touch()
            running.truth()
            return command, profile

    def assert_same(self, command, attach):
        for profile in (command, attach):
            self.assert_nothing_lost(profile)
            self.assert_all_rooted(profile)
        self.assertEqual(by_kernel(command), by_kernel(attach))
        self.assertEqual(by_stack(command), by_stack(attach))
        self.assertEqual([p["comm"] for p in command["processes"]], [p["comm"] for p in attach["processes"]])
        self.assertEqual({k: v for k, v in command["settings"][0].items() if k not in ("pid", "target")},
                         {k: v for k, v in attach["settings"][0].items() if k not in ("pid", "target")})

    def test_deep_stacks(self):
        self.assert_same(*self.both("deep_stacks", "--iterations", 400, "--nodes", 20))

    def test_copies_and_sets(self):
        self.assert_same(*self.both("copies", "--iterations", 20))

    def test_launches(self):
        self.assert_same(*self.both("launch_loop", "--iterations", 1000))


class AttachTest(ProfileTest):
    """record of what runs"""

    def test_a_second_signal_leaves_no_file_behind(self):
        with Bench() as bench:
            stepped = bench.stepped()
            recording = Recording(bench, "-pid", str(stepped.pid))
            recording.wait_for("armed process")
            os.kill(stepped.pid, signal.SIGSTOP)  # so that the end of the window takes its time
            recording.process.send_signal(signal.SIGINT)
            recording.wait_for("SIGINT: ending")
            recording.process.send_signal(signal.SIGINT)
            recording.finish(expect=1)
            os.kill(stepped.pid, signal.SIGCONT)
            self.assertIn("a second signal", recording.log())
            self.assertEqual(list(bench.folder.glob("*profile.json*")), [])
            stepped.truth()

    def test_who_named_a_process_is_told_of_it(self):
        with Bench() as bench:
            def told(pid, words, *flags):
                recording = Recording(bench, "-pid", str(pid), "-wait-for-shim", "300ms", *flags)
                recording.finish(expect=3)
                self.assertIn(f"process {pid} ", recording.log())
                self.assertIn(words, recording.log())
            bare = bench.stepped(shim=False)
            told(bare.pid, "runs without the shim: -inject loads it")
            idle, _ = bench.start(["sleep", "60"], bench.environment())
            told(idle.pid, "libcuda is not loaded")
            prepared = bench.stepped()
            [socket] = bench.shim_sockets()
            elsewhere = bench.folder / "elsewhere"
            elsewhere.mkdir()
            told(prepared.pid, f"has the shim, at {socket}", "-socket-dir", elsewhere)
            bare.truth()
            prepared.truth()

    def test_a_signal_ends_a_complete_profile(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name), Bench() as bench:
                stepped = bench.stepped()
                recording = Recording(bench, "-pid", stepped.pid, "-duration", "1h")
                recording.wait_for("info recording")
                stepped.launch(100)
                recording.process.send_signal(number)
                profile = recording.profile()
                self.assert_launches(profile, 100)
                stepped.launch(1)  # and the program goes on
                self.assertEqual(stepped.truth()["launches"], 101)

    def test_the_end_of_the_last_target_ends_the_run(self):
        with Bench() as bench:
            first, second = bench.stepped(), bench.stepped()
            recording = Recording(bench, "-duration", "1h")
            recording.wait_for("info recording")
            wait_until(lambda: recording.log().count("armed process") == 2, "both to be armed", 20)
            first.launch(10)
            second.launch(5)
            first.truth()
            recording.wait_for(f"process {first.pid} has gone")
            second.launch(20)
            self.assertIsNone(recording.process.poll())
            second.truth()
            profile = recording.profile()
            self.assert_launches(profile, 35)
            self.assertEqual(sorted(p["pid"] for p in profile["processes"]), sorted((first.pid, second.pid)))

    def test_a_process_that_is_not_there_is_5(self):
        with Bench() as bench:
            gone = subprocess.Popen(["true"])
            gone.wait()
            recording = Recording(bench, "-pid", gone.pid)
            recording.finish(expect=5)
            self.assertIn(f"no process {gone.pid}", recording.log())

    def test_no_shim_in_time_is_3(self):
        with Bench() as bench:
            recording = Recording(bench, "-wait-for-shim", "300ms")
            recording.finish(expect=3)

    def test_a_shim_that_another_sidecar_holds_is_4_and_names_it(self):
        with Bench() as bench:
            stepped = bench.stepped()
            holder = bench.sidecar()
            holder.wait_ready()
            recording = Recording(bench, "-wait-for-shim", "1s", "-pid", stepped.pid)
            recording.finish(expect=4)
            self.assertIn(f"process {stepped.pid}", recording.log())
            self.assertIn(f"pid {holder.process.pid}", recording.log())
            stepped.truth()


class OutputTest(ProfileTest):
    """-o and -format"""

    def test_every_format(self):
        for form, name in (("pprof", "p.pb.gz"), ("json", "p.json"), ("folded", "p.folded")):
            with self.subTest(form), Bench() as bench:
                recording = Recording(bench, "--", *workload("launch_loop", "--iterations", 30), name=name, form=form)
                recording.finish()
                body = recording.path.read_bytes()
                self.assertEqual({"pprof": body[:2] == b"\x1f\x8b", "json": body[:1] == b"{",
                                  "folded": b";" in body}[form], True)
                self.assertEqual([p.name for p in bench.folder.iterdir() if name in p.name], [name])

    def test_stdout(self):
        with Bench() as bench:
            environment = bench.environment(shim=False)
            out = subprocess.run([PILLION, "record", "-format", "json", "-o", "-", "--", "sh", "-c",
                                  " ".join(workload("launch_loop", "--iterations", 30)) + " >&2"],
                                 env=environment, capture_output=True, timeout=60, check=True)
            self.assertEqual(json.loads(out.stdout)["quality"]["launches"], 30)

    def test_a_file_that_cannot_be_made_costs_no_run(self):
        with Bench() as bench:
            recording = Recording(bench, "--", "touch", bench.folder / "ran", name="absent/profile.json")
            recording.finish(expect=1)
            self.assertIn("No such file or directory", recording.log())
            self.assertFalse((bench.folder / "ran").exists())

    @unittest.skipIf(os.geteuid() != 0, "mounting a small disk needs root")
    def test_a_full_disk_keeps_the_old_file_and_the_profile(self):
        with Bench() as bench, tempfile.TemporaryDirectory() as kept:
            disk = bench.folder / "disk"
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
            try:
                (disk / "profile.json").write_text("the last one")
                recording = Recording(bench, "--", *workload("deep_stacks", "--iterations", 200),
                                      name="disk/profile.json", TMPDIR=kept)
                recording.finish(expect=1)
                self.assertEqual((disk / "profile.json").read_text(), "the last one")
                self.assertEqual([p.name for p in disk.iterdir()], ["profile.json"])
            finally:
                subprocess.run(["umount", disk], check=True)
            self.assertIn("No space left on device: the profile is in ", recording.log())
            [rescued] = pathlib.Path(kept).glob("pillion-*-profile.json")
            self.assertGreater(json.loads(rescued.read_text())["quality"]["launches"], 200)

    def test_closed_streams(self):
        """What is opened instead of them is written into by nobody."""
        with Bench() as bench:
            words = " ".join(workload("launch_loop", "--iterations", 300))
            record = f"exec {PILLION} record -format json -o"
            path = bench.folder / "p.json"
            script = f"{record} {path} -- {words} <&- >&- 2>&-"
            done = subprocess.run(["sh", "-c", script], env=bench.environment(shim=False), timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(json.loads(path.read_text())["quality"]["launches"], 300)
            kept = bench.folder / "kept"
            kept.mkdir()
            done = subprocess.run(["sh", "-c", f"{record} - -- {words} >&-"], capture_output=True, text=True, timeout=60,
                                  env=bench.environment(shim=False, TMPDIR=kept))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("write stdout: Bad file descriptor: the profile is in ", done.stderr)
            [rescued] = kept.glob("pillion-*-profile")
            self.assertEqual(json.loads(rescued.read_text())["quality"]["launches"], 300)

    def test_an_answer_that_is_lost_is_an_error(self):
        for words in ("doctor", "help", "version"):
            done = subprocess.run(["sh", "-c", f"{PILLION} {words} >/dev/full"], capture_output=True, text=True,
                                  timeout=60)
            with self.subTest(command=words):
                self.assertIn("write stdout: No space left on device", done.stderr)
                self.assertNotEqual(done.returncode, 0)

    def test_a_file_size_limit_is_named(self):
        with Bench() as bench:
            # What it says goes to a pipe: the limit is for files, and for the shared memory of the rings.
            run = subprocess.run(["prlimit", "--fsize=4096:unlimited", PILLION, "record", "-o", bench.folder / "p.json", "--", "sh", "-c",
                                  "ulimit -f unlimited; exec " + " ".join(workload("launch_loop", "--iterations", 30))],
                                 env=bench.environment(shim=False), capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 4, run.stderr)
            self.assertIn("File too large: RLIMIT_FSIZE", run.stderr)
            self.assertIn("exited with status 0", run.stderr)


if __name__ == "__main__":
    main(at_once=4)
