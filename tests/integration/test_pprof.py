# SPDX-License-Identifier: Apache-2.0
"""`go tool pprof` on what the server answers: by address, two windows compared, rewritten, by label, and its web view, in
which Chromium draws the flame graph. The numbers of one profile are test_profile.py's."""
import html
import os
import re
import shutil
import subprocess
import unittest
import urllib.request

from harness import Bench, Window, main, wait_until, windows_open

CHROMIUM = os.environ.get("PILLION_CHROMIUM") or shutil.which("chromium") or "chromium"
AXPY, FILL = "axpy(int, float, float const*, float*)", "fill(float*, int, float)"
LAUNCHES = "-sample_index=launches"


def rows(top):
    """{function: (flat, cum)} of a -top."""
    table = top.split("cum%\n", 1)[1]
    return {line.split(None, 5)[5]: (int(line.split()[0]), int(line.split()[3])) for line in table.splitlines()}


def samples(raw):
    """Values of a -raw, one list for each sample."""
    lines = raw.split("Samples:\n")[1].split("Locations\n")[0].splitlines()[1:]
    return sorted([int(word) for word in line.split(":")[0].split()] for line in lines if re.match(r"[ \d-]+:", line))


@unittest.skipUnless(shutil.which("go"), "no go tool: `go tool pprof` cannot read the profile")
class PprofTest(unittest.TestCase):
    """Two programs; each launches two kernels in turn, so half of a count is each's."""

    @classmethod
    def setUpClass(cls):
        cls.bench = Bench()
        cls.addClassCleanup(cls.bench.__exit__)
        cls.programs = [cls.bench.stepped() for _ in range(2)]
        cls.sidecar = cls.bench.sidecar("-wait-for-shim", "20s")
        wait_until(lambda: cls.sidecar.metric("pillion_sessions_connected") == 2, "both programs")
        cls.address = f"http://127.0.0.1:{cls.sidecar.port}/debug/pprof"
        cls.first, cls.second = cls.window("first", 300, 100), cls.window("second", 500, 40)

    @classmethod
    def window(cls, name, *launches):
        """A file with one window, in which the programs launched so many kernels."""
        with Window(cls.sidecar, 1, format="pprof") as window:
            for program, count in zip(cls.programs, launches):
                program.launch(count)
        path = cls.bench.folder / f"{name}.pb.gz"
        path.write_bytes(window.body)
        return path

    def environment(self):
        return {**os.environ, "PPROF_TMPDIR": str(self.bench.folder)}

    def pprof(self, *arguments):
        done = subprocess.run(["go", "tool", "pprof", *map(str, arguments)], capture_output=True, text=True,
                              env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_by_address(self):
        """As it is typed: the window is the request's, and pprof's own -seconds makes the same one."""
        for words in ([f"{self.address}/gpu?seconds=1"], ["-seconds=1", f"{self.address}/gpu"]):
            with self.subTest(words):
                reader = subprocess.Popen(["go", "tool", "pprof", LAUNCHES, "-top", *words], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, env=self.environment())
                wait_until(lambda: windows_open(self.sidecar) == 1 or reader.poll() is not None, "pprof's window")
                self.programs[0].launch(60)
                out, err = reader.communicate(timeout=30)
                self.assertEqual(reader.returncode, 0, err)
                self.assertEqual((rows(out)[AXPY][0], rows(out)[FILL][0]), (30, 30))
                self.assertRegex(out, r"Duration: 1(\.0\d)?s")

    def test_index(self):
        """Each link of /debug/pprof/ is there."""
        page = urllib.request.urlopen(f"{self.address}/", timeout=30).read().decode()
        links = [html.unescape(link) for link in re.findall(r'href="(/debug/pprof/[^"]+)"', page)]
        self.assertEqual([re.sub(r".*/|\?.*", "", link) for link in links], ["gpu", "idle", "sync", "cmdline"])
        for link in links:
            self.assertEqual(self.sidecar.request(link.replace("seconds=5", "seconds=1"))[0], 200, link)

    def test_two_windows_compared(self):
        for option in ("-base", "-diff_base"):
            with self.subTest(option):
                shown = rows(self.pprof(LAUNCHES, "-top", f"{option}={self.first}", self.second))
                for name in (AXPY, FILL):
                    self.assertEqual(shown[name], ((540 - 400) // 2,) * 2)
                self.assertEqual(shown["main"], (0, 140))
                times = rows(self.pprof("-top", "-unit=ns", f"{option}={self.first}", self.second).replace("ns", ""))
                self.assertEqual(times["main"], (0, 140 * 2000))
        nothing = self.pprof(LAUNCHES, "-top", "-nodefraction=0", f"-diff_base={self.second}", self.second)
        self.assertEqual(set(rows(nothing).values()) - {(0, 0)}, set())
        # Of the same length, so scaled to each other: the shares stay.
        scaled = self.pprof(LAUNCHES, "-top", "-normalize", f"-diff_base={self.first}", self.second)
        self.assertIn("Showing nodes accounting for 0,", scaled)

    def test_proto(self):
        """What pprof writes has all that it read; two files become one."""
        again, both = self.bench.folder / "again.pb.gz", self.bench.folder / "both.pb.gz"
        self.pprof("-proto", f"-output={again}", self.first)
        read, written = self.pprof("-raw", self.first), self.pprof("-raw", again)
        self.assertEqual(samples(written), samples(read))
        for part in ("Comment: ", " M=", "[FN][FL][LN][IN]", "attribution:["):
            self.assertGreater(read.count(part), 0)
            self.assertEqual(written.count(part), read.count(part), part)
        self.pprof("-proto", f"-output={both}", self.first, self.second)
        self.assertEqual(sum(values[1] for values in samples(self.pprof("-raw", both))), 400 + 540)
        self.assertEqual(rows(self.pprof(LAUNCHES, "-top", self.first, self.second))["main"], (0, 940))

    def test_by_label(self):
        tags = self.pprof(LAUNCHES, "-tags", self.second)
        shown = dict(re.findall(r"^\s*(\w+): Total ([\d.]+)", tags, re.M))
        for name in ("process", "pid", "thread", "thread_name", "device", "gpu_uuid", "stream", "context", "attribution"):
            self.assertEqual(shown[name], "540.0", tags)
        for program, count in zip(self.programs, (500, 40)):
            self.assertRegex(tags, rf"{count}\.0 \([ \d.]+%\): {program.pid}\n")
            only = self.pprof(LAUNCHES, "-top", f"-tagfocus=pid={program.pid}id", self.second)
            self.assertEqual(rows(only)["main"], (0, count))
        self.assertEqual(rows(self.pprof(LAUNCHES, "-top", "-tagfocus=process=^stepped$", self.second))["main"], (0, 540))
        self.assertEqual(rows(self.pprof(LAUNCHES, "-top", "-tagroot=process", self.second))["stepped"], (0, 540))

    def test_traces(self):
        traces = self.pprof(LAUNCHES, "-traces", self.second)
        blocks = [block for block in re.split(r"-{11}\+-+\n", traces)[1:] if block.strip()]
        self.assertEqual(len(blocks), len(samples(self.pprof("-raw", self.second))))
        seen = 0
        for block in blocks:
            self.assertRegex(block, r"process:  stepped\n")
            self.assertRegex(block, r"pid:  \d+\n")
            # Leaf first, with inlined callers: kernel, call, the program's own functions.
            self.assertRegex(block, r"(axpy|fill)\(.*\n\s+cuLaunchKernel\n(.*\n)*\s+main\n")
            seen += int(re.search(r"^\s+(\d+)   (?:axpy|fill)", block, re.M).group(1))
        self.assertEqual(seen, 540)

    def test_web_view(self):
        """-http, without Graphviz, which the view's graph alone needs."""
        program = subprocess.run(["go", "tool", "-n", "pprof"], check=True, capture_output=True, text=True).stdout.strip()
        server, log = self.bench.start([program, "-no_browser", "-http=localhost:", f"-diff_base={self.first}", self.second],
                                       self.environment())
        address = wait_until(lambda: re.search(r"http://localhost:\d+", log.read_text()), "the web view").group()
        kernels = (AXPY, FILL)
        for view in ("top", "flamegraph", "peek?f=axpy"):
            with urllib.request.urlopen(f"{address}/ui/{view}", timeout=30) as answer:
                page = html.unescape(answer.read().decode())
            self.assertEqual((answer.status, answer.headers.get_content_type()), (200, "text/html"))
            self.assertIn(kernels[0], page, view)
            self.assertIn("stepped", page, view)
        with urllib.request.urlopen(f"{address}/ui/flamegraph", timeout=30) as answer:
            page = answer.read().decode()
        self.assertTrue("JSON.parse(" in page or "stackViewer(" in page, "the flame graph's data")
        drawn = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                                f"--user-data-dir={self.bench.folder / 'chromium'}", "--dump-dom", f"{address}/ui/flamegraph"],
                               capture_output=True, text=True, timeout=60).stdout
        # What the page's own script has put into it.
        shown = html.unescape(re.sub(r"<script.*?</script>", "", drawn, flags=re.S))
        for name in ("axpy", "fill", "cuLaunchKernel", "main"):
            self.assertIn(name, shown)
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    main()
