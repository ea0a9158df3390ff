# SPDX-License-Identifier: Apache-2.0
"""The page at /, in Chromium: web/test/page.browser.ts clicks, types, zooms, searches and saves; here its programs are
started and stopped, and what it saved is read by others. Screenshots: PILLION_SCREENSHOTS=DIR keeps them."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from harness import BUILD, ROOT, Bench, main

WEB = BUILD / "web"
TRAINING = pathlib.Path(__file__).parent / "python" / "training.py"
TIMES_NS = "conv2d=180000,sgemm=120000,softmax=40000,adamw=60000,augment=25000,*=9000"
CHROMIUM = os.environ.get("PILLION_CHROMIUM") or shutil.which("chromium")


class PageTest(unittest.TestCase):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.sidecar = self.bench.sidecar("-wait-for-shim", "0")
        self.folder = pathlib.Path(os.environ.get("PILLION_SCREENSHOTS") or self.bench.folder / "page")
        self.folder.mkdir(exist_ok=True)

    def do(self, what):
        """What the browser's script asks for; the answer is a line."""
        if what == "start the programs":
            times = {"SIMGPU_KERNEL_NS": TIMES_NS, "SIMGPU_KERNEL_SPREAD_NS": 3000}
            training = self.bench.workload("/usr/bin/python3", TRAINING, **times)
            loop = self.bench.workload("launch_loop", "--seconds", 0, "--rate", 2000, "--threads", 2)
            return f"{training.pid} {loop.pid}"
        if what == "stop the server":
            self.sidecar.process.terminate()
            self.sidecar.process.wait(10)
            return "stopped"
        raise AssertionError(f"the browser's script asks for {what!r}")

    def test_in_a_browser(self):
        script = WEB / "tests" / "page.browser.mjs"
        command = ["node", script, f"http://127.0.0.1:{self.sidecar.port}/", self.folder]
        browser = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, cwd=WEB, env={**os.environ, "PILLION_CHROMIUM": CHROMIUM})
        self.bench.processes.append(browser)
        said = []
        for line in browser.stdout:
            print(line, end="", flush=True)
            said.append(line)
            if line.startswith("do: "):
                browser.stdin.write(self.do(line[4:].strip()) + "\n")
                browser.stdin.flush()
        self.assertEqual(browser.wait(10), 0, "".join(said[-30:]))
        self.check_saved()
        self.assertLess(json.loads(said[-1])["seconds"], 60)

    def check_saved(self):
        """Of one window: the JSON as the schema says, the others with its sums."""
        profile = json.loads((self.folder / "saved.json").read_text())
        import jsonschema
        jsonschema.validate(profile, json.loads((ROOT / "sidecar/export/profile.schema.json").read_text()))
        times = sum(stack["gpu_time_ns"] for stack in profile["stacks"])
        self.assertGreater(times, 10**8)
        lines = (self.folder / "saved.folded").read_text().splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), times)
        self.assertTrue(any("Model.backward" in line for line in lines))
        for name, first in (("saved.pprof", "gpu_time"), ("saved.idle", "gpu_idle")):
            gzip.decompress((self.folder / name).read_bytes())
            raw = subprocess.run(["go", "tool", "pprof", "-raw", self.folder / name], capture_output=True, text=True)
            self.assertEqual(raw.returncode, 0, raw.stderr)
            self.assertIn(f"{first}/nanoseconds", raw.stdout)
            if first == "gpu_time":
                samples = raw.stdout.split("Samples:\n")[1].split("Locations\n")[0].splitlines()[1:]
                values = [int(line.split()[0]) for line in samples if line.split()[0].isdigit()]
                self.assertEqual(sum(values), times)

    def test_what_curl_gets(self):
        status, headers, body = self.sidecar.request("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn(b"/profile?seconds=5", body)
        self.assertNotIn(b"<script", body)
        status, headers, body = self.sidecar.request("/", headers={"Accept": "text/html"})
        self.assertEqual(status, 200)
        self.assertIn(b"/web/page.js", body)
        self.assertNotIn(b"<script>", body)  # none inline
        self.assertIn("script-src 'self'", headers["Content-Security-Policy"])
        for file in ("page.js", "page.css", "worker.js", "icon.svg"):
            self.assertEqual(self.sidecar.request(f"/web/{file}")[0], 200, file)

    def test_what_can_be_recorded(self):
        types = {one["type"]: one for one in self.sidecar.get_json("/status")["profile_types"]}
        self.assertLessEqual({"gpu", "idle", "sync", "cpu", "offcpu", "heap", "allocs"}, set(types))
        for name, one in types.items():
            reply = self.sidecar.get_json(f"/profile?seconds=1&type={name}", 503 if one["available"] else 501)
            if not one["available"]:
                self.assertEqual(reply["error"]["message"], one["reason"])


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("no Chromium here: scripts/setup test installs Debian's")
    main()
