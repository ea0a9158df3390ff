# SPDX-License-Identifier: Apache-2.0
"""Python frames in profiles of real interpreters, frame by frame against `traceback` at each launch.

OfEachVersion: one interpreter of each version that is found (PILLION_PYTHONS names some); the rest with Debian's.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import embedding
import pythons
from harness import Bench, PILLION, Window, main, wait_until, whole_run

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "python_launches.py"
PYTHON = "/usr/bin/python3"


FOUND, MISSING = pythons.find()


def of_each_version():
    """One interpreter of each version, and Debian's own."""
    found = {interpreter.version: interpreter for interpreter in FOUND if interpreter.variant == ""}
    return [*found.values(), *(i for i in FOUND if i.path.startswith("/usr/bin/") and found[i.version] is not i)]


SAMPLE_ALL = ("-sample-budget", "100", "-sample-mib", "1000")


def run(bench, python, *arguments, sidecar_flags=SAMPLE_ALL, **options):
    return whole_run(bench, python, PROGRAM, *arguments, sidecar_flags=sidecar_flags, seconds=6,
                     PYTHONDONTWRITEBYTECODE=1, **options)


def run_all_sampled(program, *arguments, tries=4, **options):
    """The same, again where a machine that was busy made the sampler save: then a launch may lack its stack."""
    for _ in range(tries):
        with Bench() as bench:
            profile, truth = run(bench, program, *arguments, **options)
        if profile["quality"]["sampler_refused_budget"] == 0:
            break
    return profile, truth


def stacks_by_kernel(profile):
    """Kernel name -> the frames of its stacks, each leaf first."""
    found = {}
    for stack in profile["stacks"]:
        frames = [profile["frames"][number] for number in stack["frames"]]
        found.setdefault(frames[0]["lines"][0]["function"], []).append(frames[1:])
    return found


def python_frames(frames):
    return [(frame["lines"][0]["function"], frame["lines"][0].get("file", ""), frame["lines"][0].get("line", 0))
            for frame in frames if frame.get("python")]


def names(frames):
    return [line["function"] for frame in frames for line in frame["lines"]]


MISSING_MARK = "[python frames missing]"


class OfEachVersion(unittest.TestCase):
    def setUp(self):
        if not FOUND:
            self.skipTest(f"no CPython {', '.join(MISSING)} on this machine")

    def check_frames(self, profile, truth, embedded=False):
        """Each launch's frames are those that `traceback` had, and of the interpreter's loop nothing is left."""
        stacks = stacks_by_kernel(profile)
        self.assertEqual(sorted(stacks), sorted(truth["launched"]))
        for kernel, expected in truth["launched"].items():
            with self.subTest(kernel=kernel, code=expected[1]):
                self.assertEqual(len(stacks[kernel]), 1)
                frames = stacks[kernel][0]
                self.assertEqual(python_frames(frames), [tuple(frame) for frame in expected])
                odd = [name for name in names(frames)
                       if (name.startswith(("_PyEval_EvalFrameDefault", "[")) and name != "[stack: fiber]")
                       or (not embedded and (name.startswith("_PyEval") or "python3" in name))]
                if kernel in truth["marked"]:
                    # Frames of another interpreter on this thread: their native frame is there, behind a mark.
                    self.assertEqual(odd.count(MISSING_MARK), 1, odd)
                    if not truth["python"].startswith("3.9"):  # whose frames leave no trace on the C stack to place them by
                        self.assertEqual(odd[odd.index(MISSING_MARK) + 1:][:1], ["_PyEval_EvalFrameDefault"])
                else:
                    self.assertEqual(odd, [])

    def check_greenlets(self, profile, truth):
        """Their stacks end where the greenlet begins, and say so."""
        ends = {}
        for stack in profile["stacks"]:
            frames = [profile["frames"][number] for number in stack["frames"]]
            ends[frames[0]["lines"][0]["function"]] = (stack["labels"].get("stack_ending"), names(frames[-2:]))
        for kernel in truth["launched"]:
            ending, root = ends[kernel]
            if kernel in truth["greenlets"]:
                self.assertEqual((ending, root[1]), ("fiber", "[stack: fiber]"), kernel)
                self.assertIn("greenlet", root[0])
            else:
                self.assertEqual((kernel, ending), (kernel, None))

    def test_every_kind_of_code(self):
        for python in of_each_version():
            with self.subTest(python=python.path):
                profile, truth = run_all_sampled(python.path)
                for what, why in truth["skipped"].items():
                    print(f"SKIPPED: CPython {python.full}: {what}: {why}", file=sys.stderr)
                if python.path.startswith("/usr/bin/"):
                    self.assertNotIn("greenlets", truth["skipped"])  # scripts/setup has installed it
                self.check_frames(profile, truth)
                self.check_greenlets(profile, truth)
                quality = profile["quality"]
                self.assertGreaterEqual(quality["launches"], 50)
                self.assertEqual(quality["launches"], len(truth["launched"]))
                self.assertRegex(quality["python"], rf"^{re.escape(truth['python'])}: in force")
                self.assertEqual(quality["python_snapshots"], quality["snapshots"])
                self.assertGreater(quality["python_codes"], 20)
                lost = {name: quality[name] for name in ("python_codes_refused", "python_frames_unnamed") if quality[name]}
                self.assertEqual(lost, {})
                unplaced = sum(len(truth["launched"][kernel]) for kernel in truth["marked"])
                self.assertEqual(quality["python_runs_unplaced"], unplaced if python.version == "3.9" else 0)
                # Only up to 3.11 is it known that frames are missing: see in_another_interpreter().
                marked = len(truth["marked"])
                known = python.version in ("3.9", "3.10", "3.11")
                self.assertEqual(quality["python_snapshots_partial"], marked if known else 0)
                self.assertGreaterEqual(quality["python_native_left"], marked)
                self.assertEqual(quality["stacks_ending_rooted"] + quality["stacks_ending_fiber"], quality["stacks"])

    def test_programs_that_embed_an_interpreter(self):
        for python in of_each_version():
            for kind in embedding.KINDS:
                with self.subTest(python=python.path, kind=kind), tempfile.TemporaryDirectory() as folder:
                    program, why_not = embedding.build(python, kind, folder)
                    if program is None:
                        print(f"SKIPPED: {kind} CPython {python.full} in a program: {why_not}", file=sys.stderr)
                        self.assertFalse(python.path.startswith("/usr/bin/"), why_not)
                        continue
                    profile, truth = run_all_sampled(program, "--embedded")
                    self.check_frames(profile, truth, embedded=True)
                    stacks = stacks_by_kernel(profile)
                    on_main = sum("work_of_the_program" in names(stacks[kernel][0]) for kernel in stacks)
                    on_thread = sum("thread_of_the_program" in names(stacks[kernel][0]) for kernel in stacks)
                    self.assertGreater(on_main, 30)
                    self.assertEqual(on_thread, 1)

    def test_deeper_than_a_snapshot_has(self):
        for python in of_each_version():
            with self.subTest(python=python.path):
                profile, truth = run_all_sampled(python.path, "--deep", "1500")
                frames = stacks_by_kernel(profile)["kernel_0"][0]
                expected = [tuple(frame) for frame in truth["launched"]["kernel_0"]]
                self.assertGreater(len(expected), 1500)
                self.assertEqual(python_frames(frames), expected[:256])
                self.assertIn(MISSING_MARK, names(frames))


class WithDebians(unittest.TestCase):
    def test_a_debug_build_is_refused(self):
        debug = shutil.which("python3-dbg")
        if debug is None:
            self.skipTest("no python3-dbg, which scripts/setup installs")
        with Bench() as bench:
            profile, truth = run(bench, debug)
        quality = profile["quality"]
        self.assertEqual(quality["launches"], len(truth["launched"]))
        self.assertEqual([frame for frame in profile["frames"] if frame.get("python")], [])
        self.assertEqual(quality["python_snapshots"], 0)
        self.assertIn(f"CPython {truth['python']}: a debug build", quality["python"])

    def test_c_code_that_calls_back_stands_between(self):
        profile, truth = run_all_sampled(PYTHON)
        for kernel, expected in truth["launched"].items():
            if expected[1][0].endswith("through_c_code.<locals>.<lambda>") and len(expected) > 4:
                frames = stacks_by_kernel(profile)[kernel][0]
                places = [number for number, frame in enumerate(frames) if frame.get("python")]
                between = names(frames[places[1] + 1:places[2]])
                if "qsort" in " ".join(between):
                    return
        self.fail("no stack has qsort between two Python frames")

    def test_two_lines_of_a_loop_at_a_low_rate(self):
        """Of 25,000 launches few have a stack of their own; by the context key each counts for the line it came from."""
        rounds = 20_000
        with Bench() as bench:
            profile, _ = run(bench, PYTHON, "--uneven", str(rounds), sidecar_flags=("-sample-budget", "0.1"))
        quality = profile["quality"]
        self.assertEqual(quality["launches"], rounds + rounds // 4)
        self.assertLess(quality["snapshots"], rounds // 10)
        by_line = collections.Counter()
        for stack in profile["stacks"]:
            frames = python_frames([profile["frames"][number] for number in stack["frames"]])
            by_line[frames[0][0], frames[0][2]] += stack["launches"]
        first = PROGRAM.read_text().splitlines().index("    for number in range(count):") + 2
        self.assertEqual(by_line, {("uneven_lines", first): rounds, ("uneven_lines", first + 2): rounds // 4})

    def test_daemon_threads_that_launch_while_the_interpreter_ends(self):
        for _ in range(5):
            with Bench() as bench:
                start, end = bench.folder / "start", bench.folder / "end"
                program = bench.workload(PYTHON, PROGRAM, "--daemons", "--start-file", start, "--end-file", end)
                sidecar = bench.sidecar("-wait-for-shim", "20s", *SAMPLE_ALL)
                sidecar.wait_ready()
                with Window(sidecar, 3) as window:
                    sidecar.wait_state(program.pid, "armed")
                    start.touch()
                    end.touch()
                    self.assertEqual(program.finish(30), 0, program.output())
                self.assertEqual(program.output().count("\n"), 1)  # its own line of JSON
                self.assertGreater(window.take()["quality"]["python_snapshots"], 0)

    def test_switched_off(self):
        with Bench() as bench:
            profile, _ = run(bench, PYTHON, sidecar_flags=(*SAMPLE_ALL, "-python=off"))
        self.assertEqual([frame for frame in profile["frames"] if frame.get("python")], [])
        self.assertEqual(profile["quality"]["python_snapshots"], 0)
        self.assertIn("not asked for", profile["quality"]["python"])
        self.assertTrue(any("_PyEval_EvalFrameDefault" in names([frame]) for frame in profile["frames"]))

    def test_status_says_what_is_in_force(self):
        with Bench() as bench:
            start, end = bench.folder / "start", bench.folder / "end"
            program = bench.workload(PYTHON, PROGRAM, "--start-file", start, "--end-file", end,
                                     PYTHONDONTWRITEBYTECODE=1)
            sidecar = bench.sidecar("-wait-for-shim", "20s", *SAMPLE_ALL)
            sidecar.wait_ready()
            with Window(sidecar, 2):
                sidecar.wait_state(program.pid, "armed")
                python = wait_until(lambda: sidecar.get_json("/status")["processes"][0]["python"],
                                    "the shim to say what it found")
                start.touch()
            totals = sidecar.get_json("/status")["totals"]["python"]
            end.touch()
            version = program.truth()["python"]
        self.assertEqual(python, {"state": "in force", "in_force": True, "version": version, "text": ""})
        self.assertGreater(totals["frames"], totals["runs"])
        self.assertEqual(totals["runs_unplaced"], 0)

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_go_pprof_shows_the_source(self):
        with Bench() as bench:
            start, end, out = bench.folder / "start", bench.folder / "end", bench.folder / "profile.pb.gz"
            start.touch()
            end.touch()
            program, log = bench.start([PILLION, "record", "-socket-dir", bench.sockets, "-o", out, *SAMPLE_ALL,
                                        "--", PYTHON, PROGRAM, "--start-file", start, "--end-file", end],
                                       bench.environment(PYTHONDONTWRITEBYTECODE=1))
            self.assertEqual(program.wait(60), 0, log.read_text()[-500:])

            def pprof(*words):
                return subprocess.run(["go", "tool", "pprof", "-sample_index=launches", *words, out],
                                      capture_output=True, text=True, check=True).stdout

            listing = pprof("-list=two_lines_of_a_loop")
            by_name = pprof("-list=Model.layer")
            # Leaves are kernels: what a line led to is its cumulative figure.
            top = pprof("-top", "-lines", "-cum", "-nodecount=500")
            functions = pprof("-top", "-cum", "-nodecount=500")
        lines = re.findall(r"^\s+\. +(\d+) +\d+:        launch\(\)$", listing, re.MULTILINE)
        self.assertEqual(lines, ["2", "2"], listing)
        # By the qualified name, the lambda inside of it as well, each with its own source.
        self.assertRegex(by_name, r"ROUTINE =+ Model\.layer in .*python_launches\.py")
        self.assertRegex(by_name, r"ROUTINE =+ Model\.layer\.<locals>\.<lambda> in .*python_launches\.py")
        self.assertRegex(by_name, r"\. +1 +\d+: +launch\(\)\)\(value\)")
        self.assertRegex(functions, r" <module>\n", "pprof takes it for a C++ name where it may demangle")
        self.assertNotIn("<unknown>", functions)
        source = PROGRAM.read_text().splitlines()
        first = source.index("def two_lines_of_a_loop():") + 3
        for line in (first, first + 1):
            self.assertRegex(top, rf"\n +0 .* 2 +\S+ +two_lines_of_a_loop \S*python_launches\.py:{line}\n")


if __name__ == "__main__":
    for missing in MISSING:
        print(f"SKIPPED: CPython {missing}: none on this machine", file=sys.stderr)
    main()
