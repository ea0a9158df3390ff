# SPDX-License-Identifier: Apache-2.0
"""The configurations in k8s/scrape: what they name is there, on a real server, asked for as Alloy and Parca ask."""
import gzip
import re
import threading
import unittest

import yaml

from harness import ROOT, Bench, main

FOLDER = ROOT / "k8s/scrape"
VALUES = {"gpu": "gpu_time", "idle": "gpu_idle", "sync": "sync_time"}
# What both tools ask for unless they are told not to. Name -> path.
DEFAULTS = {"memory": "/debug/pprof/allocs", "block": "/debug/pprof/block", "goroutine": "/debug/pprof/goroutine",
            "mutex": "/debug/pprof/mutex", "process_cpu": "/debug/pprof/profile"}


class AlloySyntax:
    """The part of Alloy's language that a scrape job takes: blocks with labels, attributes, strings, lists, objects."""

    TOKENS = re.compile(r'\s+|//[^\n]*|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)'
                        r'|(?P<mark>[={}\[\],])')

    def __init__(self, text):
        self.tokens, place = [], 0
        while place < len(text):
            found = self.TOKENS.match(text, place)
            if found is None:
                raise ValueError(f"line {text.count(chr(10), 0, place) + 1}: {text[place:place + 20]!r}")
            if found.lastgroup:
                self.tokens.append((found.lastgroup, found.group(), text.count("\n", 0, place) + 1))
            place = found.end()
        self.tokens.append(("end", "", text.count("\n") + 1))

    def next(self, *expected):
        kind, text, line = self.tokens.pop(0)
        if expected and kind not in expected and text not in expected:
            raise ValueError(f"line {line}: {text!r} where {' or '.join(expected)} belongs")
        return kind, text

    def at(self, text):
        return self.tokens[0][1] == text

    def body(self, end=""):
        """{name: value} with blocks as {"name label": {...}}; a name twice is an error, as in Alloy."""
        members = {}
        while not self.at(end):
            _, name = self.next("name")
            if self.at("="):
                self.next("=")
                key, value = name, self.value()
            else:
                key = f"{name} {self.next('string')[1][1:-1]}" if self.tokens[0][0] == "string" else name
                self.next("{")
                value = self.body("}")
                self.next("}")
            if key in members:
                raise ValueError(f"{key} stands there twice")
            members[key] = value
        return members

    def value(self):
        kind, text = self.next("string", "number", "name", "[", "{")
        if kind == "string":
            return text[1:-1]
        if kind == "number":
            return int(text)
        if kind == "name":
            return {"true": True, "false": False}.get(text, text)
        end, items = ("]", []) if text == "[" else ("}", {})
        while not self.at(end):
            if text == "[":
                items.append(self.value())
            else:
                key = self.next("string", "name")[1].strip('"')
                self.next("=")
                items[key] = self.value()
            if not self.at(end):
                self.next(",")
        self.next(end)
        return items


def seconds(text):
    """Of a duration in whole seconds or minutes."""
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


class ScrapeConfigsTest(unittest.TestCase):
    def answers(self, requests):
        """{path: (status, headers, body)}, all asked for at once, on a server with a program."""
        with Bench() as bench:
            bench.workload("launch_loop", "--seconds", 0, "--rate", 1000)
            sidecar = bench.sidecar("-wait-for-shim", "0", "-health-listen", "127.0.0.1:0")
            sidecar.wait_ready()
            found = {}
            threads = [threading.Thread(target=lambda path=path: found.update({path: sidecar.request(path)}))
                       for path in requests]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return found

    def check_profiles(self, profiles, window):
        """profiles: {type: path}. window: of the configuration, in seconds; the test asks for the shortest one."""
        self.assertEqual(set(profiles), set(VALUES))
        self.assertLessEqual(window, 3600)
        answers = self.answers([f"{path}?seconds=1" for path in profiles.values()])
        for kind, path in profiles.items():
            status, headers, body = answers[f"{path}?seconds=1"]
            self.assertEqual(status, 200, (path, body))
            # Alloy takes no other type, and both unpack gzip by its first bytes.
            self.assertEqual(headers["Content-Type"], "application/octet-stream")
            self.assertIn(VALUES[kind].encode(), gzip.decompress(body), path)
            self.assertEqual(path, f"/debug/pprof/{kind}")

    def check_defaults(self, disabled):
        """Each of the tool's own profiles is off, or there."""
        self.assertEqual({name for name in DEFAULTS if disabled.get(name) is not True}, set())
        self.assertEqual(set(disabled) - set(DEFAULTS), set(), "switched off, but not on by default")
        answers = self.answers([f"{path}?seconds=1" for path in DEFAULTS.values()])
        there = [path for path, (status, _, _) in answers.items() if status == 200]
        self.assertEqual(there, [], "Pillion has it now: let the configurations ask for it")

    def test_alloy(self):
        config = AlloySyntax((FOLDER / "config.alloy").read_text()).body()
        self.assertEqual(set(config), {"pyroscope.scrape pillion", "pyroscope.write profiles"})
        scrape = config["pyroscope.scrape pillion"]
        self.assertEqual(scrape["forward_to"], ["pyroscope.write.profiles.receiver"])
        self.assertEqual([target["__address__"] for target in scrape["targets"]], ["127.0.0.1:7070"])
        self.assertTrue(all("service_name" in target for target in scrape["targets"]))
        self.assertEqual(set(config["pyroscope.write profiles"]["endpoint"]), {"url"})
        # Alloy adds `seconds` to what is in params, once for each profile: the second one would be refused.
        self.assertEqual(set(scrape), {"targets", "forward_to", "scrape_interval", "delta_profiling_duration",
                                       "scrape_timeout", "profiling_config"})
        window, timeout = seconds(scrape["delta_profiling_duration"]), seconds(scrape["scrape_timeout"])
        self.assertTrue(1 < window <= seconds(scrape["scrape_interval"]) - 1)
        self.assertNotEqual(window, 14)  # Alloy's default, which it takes for "the interval less a second"
        self.assertGreater(timeout, window + 5)
        blocks = {key.removeprefix("profile."): block for key, block in scrape["profiling_config"].items()}
        custom = {key.removeprefix("custom "): block for key, block in blocks.items() if key.startswith("custom ")}
        for name, block in custom.items():
            self.assertEqual((set(block), block["enabled"], block["delta"]), ({"enabled", "path", "delta"}, True, True), name)
        own = {key: block for key, block in blocks.items() if not key.startswith("custom ")}
        self.check_defaults({key: block == {"enabled": False} for key, block in own.items()})
        self.check_profiles({name: block["path"] for name, block in custom.items()}, window)

    def test_parca(self):
        config = yaml.safe_load((FOLDER / "parca.yaml").read_text())
        self.assertEqual(set(config), {"object_storage", "scrape_configs"})
        job, = config["scrape_configs"]
        # No params: as with Alloy.
        self.assertEqual(set(job), {"job_name", "scrape_interval", "scrape_timeout", "static_configs", "profiling_config"})
        self.assertEqual(job["static_configs"], [{"targets": ["127.0.0.1:7070"]}])
        window, timeout = seconds(job["scrape_interval"]), seconds(job["scrape_timeout"])
        self.assertGreater(timeout, window + 5)
        profiles = job["profiling_config"]["pprof_config"]
        on = {name: block for name, block in profiles.items() if block["enabled"]}
        for name, block in on.items():
            self.assertEqual((set(block), block["delta"]), ({"enabled", "path", "delta"}, True), name)
        off = {name: block == {"enabled": False} for name, block in profiles.items() if name not in on}
        self.check_defaults(off)
        self.check_profiles({name: block["path"] for name, block in on.items()}, window)

    def test_pod_monitor(self):
        monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())
        self.assertEqual((monitor["apiVersion"], monitor["kind"]), ("monitoring.coreos.com/v1", "PodMonitor"))
        endpoint, = monitor["spec"]["podMetricsEndpoints"]
        rules = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"][0]["relabel_configs"]
        port = next(rule["regex"] for rule in rules
                    if rule["source_labels"] == ["__meta_kubernetes_pod_container_port_name"])
        self.assertEqual(endpoint["port"], port)
        self.assertLessEqual(len(port), 15, "the longest name that Kubernetes takes for a port")
        pod = yaml.safe_load((ROOT / "k8s/pod.yaml").read_text())
        labels = pod["metadata"]["labels"].items()
        self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels)
        with Bench() as bench:
            sidecar = bench.sidecar("-wait-for-shim", "0", "-health-listen", "127.0.0.1:0")
            status, headers, _ = sidecar.request(endpoint["path"])
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/plain"))
        readme = (FOLDER / "README.md").read_text()
        self.assertIn(f"{{name: {port}, containerPort: 7071}}", readme)
        self.assertIn("-health-listen=:7071", readme)

    def test_alloy_syntax_is_checked(self):
        text = (FOLDER / "config.alloy").read_text()
        for old, new in (("forward_to = [", "forward_to = "), ('profile.custom "gpu" {', "profile.custom gpu {"),
                         ("enabled = true", "enabled: true"), ('"60s"', '"60s'), ('"sync" {', '"gpu" {')):
            self.assertIn(old, text)
            with self.subTest(new), self.assertRaises(ValueError):
                AlloySyntax(text.replace(old, new, 1)).body()


if __name__ == "__main__":
    main(at_once=2)
