# SPDX-License-Identifier: Apache-2.0
"""/metrics, read by a Prometheus of Debian's with the scrape config of k8s/scrape: what promtool says of the names, what a
query answers, and how many series there are after programs have come and gone."""
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import unittest
import urllib.parse

import yaml

from harness import ROOT, Bench, Window, main, wait_until

CONFIG = ROOT / "k8s/scrape/prometheus.yaml"
POD = {"__meta_kubernetes_pod_container_port_name": "pillion-health", "__meta_kubernetes_pod_phase": "Running",
       "__meta_kubernetes_namespace": "training", "__meta_kubernetes_pod_name": "cuda-app",
       "__meta_kubernetes_pod_node_name": "node-1"}
PROGRAMS, AT_ONCE, LAUNCHES = 50, 10, 20
SMALL_RINGS = ("-events-rings", 4, "-events-ring-kib", 256, "-stacks-rings", 2)  # all programs within the budget


def series_of(text):
    """Names with labels, without values."""
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")}


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *map(str, arguments)], input=text, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def write_config(path, pods):
    """The job of k8s/scrape with its pods given by the test: Debian's Prometheus is built without Kubernetes."""
    config = yaml.safe_load(CONFIG.read_text())
    job, = config["scrape_configs"]
    if job.pop("kubernetes_sd_configs") != [{"role": "pod"}]:
        raise AssertionError(f"{CONFIG} does not look for pods")
    job["static_configs"] = [{"targets": [address], "labels": labels} for address, labels in pods]
    job["scrape_interval"] = job["scrape_timeout"] = "500ms"
    path.write_text(yaml.safe_dump(config))


class Prometheus:
    """A Prometheus of its own, on a port that it chooses."""

    def __init__(self, bench, pods):
        path = bench.folder / "prometheus.yaml"
        write_config(path, pods)
        _, self.log_path = bench.start(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={bench.folder / 'data'}",
             "--web.listen-address=127.0.0.1:0"], None)
        log = pathlib.Path(self.log_path)
        wait_until(lambda: "Server is ready" in log.read_text(), f"Prometheus to be ready: {log}", 20)
        self.port = int(re.search(r'"Listening on".*?address=127\.0\.0\.1:(\d+)', log.read_text()).group(1))

    def ask(self, path, **parameters):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
            answer = json.loads(connection.getresponse().read())
        if answer["status"] != "success":
            raise AssertionError(f"{path} {parameters}: {answer}")
        return answer["data"]

    def value(self, query):
        """Of a query whose answer is one number; None while there is none."""
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"), "no prometheus: scripts/setup test")
class PrometheusTest(unittest.TestCase):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)

    def sidecar(self, *flags):
        sidecar = self.bench.sidecar("-wait-for-shim", "0", "-health-listen", "127.0.0.1:0", *flags)
        found = wait_until(lambda: re.search(r"health on \S*?(127\.0\.0\.1:\d+)", sidecar.log()), "the health server")
        return sidecar, found.group(1)

    def generation(self, sidecar):
        """Programs that come, launch in a window, and end when their executions have been seen. Returns how many."""
        start, end = (self.bench.folder / f"{word}-{self.bench.count}" for word in ("start", "end"))
        before = sidecar.metric("pillion_executions_total")
        programs = [self.bench.workload("launch_loop", "--seconds", 0, "--iterations", LAUNCHES, "--start-file", start,
                                        "--end-file", end) for _ in range(AT_ONCE)]
        wait_until(lambda: sidecar.metric("pillion_sessions_armed") == AT_ONCE + 1, f"{AT_ONCE} armed programs", 20)
        start.touch()
        wait_until(lambda: sidecar.metric("pillion_executions_total") == before + AT_ONCE * LAUNCHES, "all executions", 20)
        end.touch()
        executed = sum(program.truth()["simgpu"]["executions"] for program in programs)
        wait_until(lambda: sidecar.metric("pillion_sessions_connected") == 1, "their sessions to end")
        return executed

    def test_what_promtool_says(self):
        config = self.bench.folder / "prometheus.yaml"
        write_config(config, [("127.0.0.1:1", POD)])
        code, said = promtool("check", "config", config)
        self.assertEqual((code, "SUCCESS" in said), (0, True), said)
        sidecar, _ = self.sidecar()
        stepped = self.bench.stepped()
        sidecar.wait_ready()
        with Window(sidecar, 1) as window:
            stepped.launch(10)
        window.take()
        sidecar.request("/nowhere")
        text = sidecar.request("/metrics")[2].decode()
        stepped.truth()
        self.assertEqual(promtool("check", "metrics", text=text), (0, ""))
        # promtool does look.
        code, said = promtool("check", "metrics", text=text.replace("pillion_gpu_seconds_total", "pillion_gpu_ms"))
        self.assertEqual(code, 3, said)
        self.assertIn("pillion_gpu_ms", said)
        families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
        self.assertEqual(re.findall(r"^# HELP (\S+) \S", text, re.M), [name for name, _ in families])
        # Each sample belongs to a family: no names without help and type.
        self.assertLessEqual({name.split("{")[0] for name in series_of(text)}, {name for name, _ in families})

    def test_values_of_the_truth(self):
        sidecar, address = self.sidecar()
        stepped = self.bench.stepped()
        sidecar.wait_ready()
        elsewhere = {**POD, "__meta_kubernetes_pod_container_port_name": "http", "__meta_kubernetes_pod_name": "other"}
        ended = {**POD, "__meta_kubernetes_pod_phase": "Succeeded", "__meta_kubernetes_pod_name": "ended"}
        prometheus = Prometheus(self.bench, [(address, POD), (address, elsewhere), (address, ended)])
        wait_until(lambda: prometheus.value('up{job="pillion"}') == 1, "the target to be up")
        with Window(sidecar, 2) as window:
            stepped.launch(3000)
        window.take()
        truth = stepped.truth()["simgpu"]
        pod = '{job="pillion",namespace="training",pod="cuda-app",node="node-1"}'
        wait_until(lambda: prometheus.value(f"pillion_executions_total{pod}") == truth["executions"], "the executions")
        self.assertEqual(truth["executions"], 3000)
        for query, value in ((f"pillion_launches_total{pod}", 3000), (f"pillion_executions_joined_total{pod}", 3000),
                             ("sum(pillion_records_dropped_total)", 0), ("sum(pillion_anomalies_total)", 0),
                             ("count(up)", 1), ("sum(pillion_windows_total)", 1)):
            self.assertEqual(prometheus.value(query), value, query)
        self.assertAlmostEqual(prometheus.value("sum(pillion_gpu_seconds_total)"), truth["gpu_ns"] / 1e9, delta=1e-9)
        # What a dashboard shows: the rate of a counter, over the scrapes.
        wait_until(lambda: prometheus.value("increase(pillion_executions_total[1m])"), "a rate")
        targets = prometheus.ask("targets", state="active")["activeTargets"]
        self.assertEqual([(target["health"], target["lastError"]) for target in targets], [("up", "")])
        metadata = prometheus.ask("metadata", metric="pillion_gpu_seconds_total")["pillion_gpu_seconds_total"]
        self.assertEqual([(row["type"], row["help"]) for row in metadata], [("counter", "Time of all executions")])

    def test_series_do_not_grow_with_programs(self):
        sidecar, address = self.sidecar(*SMALL_RINGS)
        stays = self.bench.stepped()
        sidecar.wait_ready()
        prometheus = Prometheus(self.bench, [(address, POD)])

        def in_a_window(generations):
            """The window ends when its client hangs up."""
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", sidecar.port)) as client:
                client.request("GET", "/profile?seconds=600")
                wait_until(lambda: sidecar.metric("pillion_windows_open") == 1, "the window to be open")
                executed = sum(self.generation(sidecar) for _ in range(generations))
            wait_until(lambda: sidecar.metric("pillion_windows_open") == 0, "the window to be closed")
            wait_until(lambda: sidecar.metric("pillion_http_windows_running") == 0, "its request to be over")
            return executed

        def seen(executed):
            """What Prometheus has ever had of the job, once it has these programs' executions."""
            wait_until(lambda: prometheus.value("sum(pillion_executions_total)") == executed, f"{executed} executions")
            own = prometheus.ask("series", **{"match[]": '{job="pillion"}'})
            return {tuple(sorted(labels.items())) for labels in own}

        executed = in_a_window(1)
        before, ours = seen(executed), series_of(sidecar.request("/metrics")[2].decode())
        executed += in_a_window(PROGRAMS // AT_ONCE)
        after = seen(executed)
        stays.truth()
        self.assertEqual(executed, (PROGRAMS + AT_ONCE) * LAUNCHES)
        self.assertEqual(sidecar.metric("pillion_sessions_total"), PROGRAMS + AT_ONCE + 1)
        self.assertEqual(series_of(sidecar.request("/metrics")[2].decode()), ours)
        self.assertEqual(after - before, set())
        # Sums of what is gone stay in: no counter ever went down.
        counters = {name.split("{")[0] for name in ours if re.match(r"pillion_\w+_total\b", name)}
        self.assertGreater(len(counters), 15)
        self.assertEqual({name for name in counters if prometheus.value(f"max(resets({name}[10m]))") != 0}, set())
        print(f"{len(ours)} series, {len(after)} in Prometheus with its own, after {PROGRAMS + AT_ONCE} programs")
        self.assertLess(len(ours), 150)


if __name__ == "__main__":
    main(at_once=3)
