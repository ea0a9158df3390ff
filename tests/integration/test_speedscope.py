# SPDX-License-Identifier: Apache-2.0
"""Folded and pprof files open in speedscope, as npm has it, in Chromium (web/test/speedscope.browser.ts): what it took from
them, in its own export, has our frames and the double's time."""
import json
import os
import shutil
import subprocess
import unittest

from harness import BUILD, Bench, Window, main

WEB = BUILD / "web"
CHROMIUM = os.environ.get("PILLION_CHROMIUM") or shutil.which("chromium") or "chromium"
STACK = ["main", "launch", "workload::Device::launch(unsigned long, CUstream_st*, unsigned long)", "cuLaunchKernel"]
KERNELS = ["axpy(int, float, float const*, float*)", "fill(float*, int, float)"]
LAUNCHES, KERNEL_NS = 300, 2000


def stacks_of(exported):
    """{stack from main on: time} of what speedscope exports: frames that open and close as time passes."""
    profile, = exported["profiles"]
    names = [frame["name"] for frame in exported["shared"]["frames"]]
    times, open_frames, last = {}, [], profile["startValue"]
    for event in profile["events"]:
        if event["at"] > last:
            stack = tuple(open_frames[open_frames.index("main"):])
            times[stack] = times.get(stack, 0) + event["at"] - last
            last = event["at"]
        if event["type"] == "O":
            open_frames.append(names[event["frame"]])
        elif open_frames.pop() != names[event["frame"]]:
            raise AssertionError("a frame is closed that is not the innermost")
    return times


class SpeedscopeTest(unittest.TestCase):
    def test_opens_folded_and_pprof(self):
        with Bench() as bench:
            stepped = bench.stepped()
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            files = {"folded": "gpu.folded", "pprof": "gpu.pb.gz"}
            for form, name in files.items():
                with Window(sidecar, 1, format=form) as window:
                    stepped.launch(LAUNCHES)
                self.assertEqual(window.status, 200, window.body)
                (bench.folder / name).write_bytes(window.body)
            truth = stepped.truth()["simgpu"]
            self.assertEqual(truth["gpu_ns"], 2 * LAUNCHES * KERNEL_NS)
            done = subprocess.run(["node", WEB / "tests/speedscope.browser.mjs", bench.folder, *files.values()], cwd=WEB,
                                  env={**os.environ, "PILLION_CHROMIUM": CHROMIUM}, capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            exported = {form: json.loads((bench.folder / f"{name}.speedscope.json").read_text())
                        for form, name in files.items()}
        expected = {tuple([*STACK, kernel]): LAUNCHES // 2 * KERNEL_NS for kernel in KERNELS}
        self.assertEqual(stacks_of(exported["folded"]), expected)
        # Of frames that were inlined into one another speedscope keeps one of a location, the outermost.
        outermost = {tuple(name for name in stack if name != "launch"): time for stack, time in expected.items()}
        self.assertEqual(stacks_of(exported["pprof"]), outermost)
        pprof = exported["pprof"]["profiles"][0]
        self.assertEqual((pprof["unit"], pprof["endValue"]), ("nanoseconds", LAUNCHES * KERNEL_NS))
        places = {frame["name"]: (frame.get("file", ""), frame.get("line")) for frame in exported["pprof"]["shared"]["frames"]}
        self.assertTrue(places["main"][0].endswith("workloads/stepped.cpp"))
        self.assertGreater(places["main"][1], 0)


if __name__ == "__main__":
    main()
