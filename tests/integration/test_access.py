#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets profiles: addresses, tokens, names, unix sockets and limits, on real sockets with a program on the double."""
import base64
import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess

from harness import PILLION, Bench, ProfileTest, Window, main, wait_until, windows_open

TOKEN = "0123456789-integration-token"
WINDOWS_MAX, CONNECTIONS_MAX, HEAD_MAX = 16, 512, 64 << 10


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class AccessTest(ProfileTest):
    def setUp(self):
        self.bench = self.enterContext(Bench())
        self.token = self.bench.folder / "token"
        self.set_token(TOKEN)

    def set_token(self, text, mode=0o600):
        """As an editor or a Secret's volume does it: the whole file at once."""
        fresh = self.token.with_name("token.new")
        fresh.write_text(text + "\n")
        fresh.chmod(mode)
        fresh.rename(self.token)

    def run_pillion(self, *words):
        return subprocess.run([PILLION, *map(str, words)], capture_output=True, text=True, timeout=30)

    def probe(self, *words):
        return self.run_pillion("probe", *words).returncode

    def status(self, sidecar, path="/healthz", **headers):
        return sidecar.request(path, headers={name.replace("_", "-"): text for name, text in headers.items()})[0]

    def serve_on(self, address, *words):
        """A pillion on an address of one's own; returns its process and where it says it listens."""
        command = [PILLION, "serve", "-socket-dir", self.bench.sockets, "-wait-for-shim=0", "-listen", address, *words]
        process, log = self.bench.start(command, os.environ)

        def listening():
            self.assertIsNone(process.poll(), log.read_text())
            return re.search(r"listening on ([^\s,]+)", log.read_text())

        return process, wait_until(listening, "pillion to listen", 15)[1]

    # ---- Addresses ----

    def test_loopback_alone_unless_told_otherwise(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0")
        self.assertEqual(self.status(sidecar), 200)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", sidecar.port), timeout=5)
        for address in ("0.0.0.0:0", ":0", "[::]:0"):
            done = self.run_pillion("serve", "-listen", address)
            self.assertEqual(done.returncode, 2)
            for words in ("-token-file", "-insecure", "-health-listen"):
                self.assertIn(words, done.stderr)

    def test_insecure_is_open_and_checks_names_all_the_same(self):
        _, url = self.serve_on("0.0.0.0:0", "-insecure", "-allow-host", "gpu-7.example.com")
        port = int(url.rsplit(":", 1)[1])
        for host, expected in (("127.0.0.2", 200), ("10.1.2.3", 200), ("localhost", 200), ("gpu-7.example.com", 200),
                               ("rebound.example.org", 403)):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.2", port, timeout=10)) as connection:
                connection.request("GET", "/status", headers={"Host": f"{host}:{port}"})
                reply = connection.getresponse()
                self.assertEqual(reply.status, expected, host)
                body = reply.read().decode()
                if expected == 403:
                    self.assertIn("host_not_allowed", body)
                    self.assertIn("-allow-host", body)

    def test_a_page_with_a_rebound_name_reads_nothing(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0")
        self.assertEqual(self.status(sidecar, "/status", Host="rebound.example.org"), 403)
        self.assertEqual(self.status(sidecar, "/profile?seconds=1", Host="rebound.example.org:7070"), 403)
        self.assertEqual(self.status(sidecar, "/status", Host=f"localhost:{sidecar.port}"), 200)

    # ---- Tokens ----

    def test_a_token_stands_before_everything_and_a_profile_comes_with_it(self):
        workload = self.bench.stepped()
        sidecar = self.bench.sidecar("-wait-for-shim=20s", "-token-file", self.token)
        for path in ("/", "/status", "/healthz", "/metrics", "/debug/pprof/cmdline", "/profile?seconds=1", "/nothing"):
            for headers in ({}, bearer("x" * len(TOKEN)), bearer(TOKEN + "x"), {"Authorization": TOKEN}):
                status, _, body = sidecar.request(path, headers=headers)
                self.assertEqual(status, 401, path)
                self.assertIn(b"Authorization: Bearer", body)
                self.assertNotIn(TOKEN.encode(), body)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=10)) as connection:
            connection.request("GET", "/status")
            offered = connection.getresponse().headers.get_all("WWW-Authenticate")
        self.assertEqual(sorted(offered), ['Basic realm="pillion"', 'Bearer realm="pillion"'])
        plain = sidecar.request
        sidecar.request = lambda path, headers=None, **more: plain(path, headers={**bearer(TOKEN), **(headers or {})}, **more)
        sidecar.wait_ready()
        with Window(sidecar, 1) as window:
            workload.launch(200)
        self.assert_launches(window.take(), 200)
        self.assertNotIn(TOKEN.encode(), sidecar.request("/debug/pprof/cmdline")[2])
        self.assertNotIn(TOKEN, sidecar.log())

    def test_go_tool_pprof_brings_the_token_in_the_url(self):
        workload = self.bench.stepped()
        sidecar = self.bench.sidecar("-wait-for-shim=20s", "-token-file", self.token)
        asked = f"127.0.0.1:{sidecar.port}/debug/pprof/gpu?seconds=2"
        environment = {**os.environ, "PPROF_TMPDIR": str(self.bench.folder)}
        wait_until(lambda: sidecar.request("/readyz", headers=bearer(TOKEN))[0] == 200, "a shim", 15)

        def windows():
            text = sidecar.request("/metrics", headers=bearer(TOKEN))[2].decode()
            return float(re.search(r"^pillion_windows_open (\S+)", text, re.MULTILINE)[1])

        command = ["go", "tool", "pprof", "-raw", "-sample_index=launches", f"http://pillion:{TOKEN}@{asked}"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pprof:
            wait_until(windows, "pprof's window", 20)
            workload.launch(50)
            out, said = pprof.communicate(timeout=60)
        self.assertEqual(pprof.returncode, 0, said)
        self.assertIn(b"gpu_time/nanoseconds", out)
        self.assertIn(b"cuLaunchKernel", out)
        done = subprocess.run(["go", "tool", "pprof", "-raw", f"http://{asked}"], env=environment, capture_output=True,
                              timeout=60)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"401", done.stderr)

    def test_a_new_token_counts_at_once(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0", "-token-file", self.token)

        def asked(token):
            return sidecar.request("/healthz", headers=bearer(token))[0]

        self.assertEqual(asked(TOKEN), 200)
        other = TOKEN.replace("0", "9")
        self.set_token(other)
        self.assertEqual((asked(TOKEN), asked(other)), (401, 200))
        self.set_token(other, mode=0o644)
        self.assertEqual(asked(other), 401)
        self.assertIn("nobody is let in", sidecar.log())
        self.token.unlink()
        self.assertEqual(asked(other), 401)
        self.set_token(TOKEN)
        self.assertEqual(asked(TOKEN), 200)

    def test_a_bad_token_file_ends_serve_and_probe_with_what_to_do(self):
        for text, mode, words in (("short", 0o600, "16 to 512"), (TOKEN, 0o644, "chmod 600"), (TOKEN, 0o620, "chmod 600"),
                                  ("two words of a token", 0o600, "one word")):
            self.set_token(text, mode)
            for command in (("serve", "-listen=:0"), ("probe", "live")):
                done = self.run_pillion(*command, "-token-file", self.token)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("-token-file", done.stderr)
        self.token.unlink()
        done = self.run_pillion("serve", "-listen=:0", "-token-file", self.token)
        self.assertEqual(done.returncode, 2)
        self.assertIn("No such file", done.stderr)

    def test_probe_with_and_without_the_token(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0", "-token-file", self.token)
        address = ("-listen", f"127.0.0.1:{sidecar.port}")
        self.assertEqual(self.probe("live", *address, "-token-file", self.token), 0)
        self.assertEqual(self.probe("ready", *address, "-token-file", self.token), 3)
        refused = self.run_pillion("probe", "live", *address)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("-token-file", refused.stderr)

    def test_health_listener_has_no_token_and_nothing_else(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0", "-token-file", self.token, "-health-listen=0.0.0.0:0")
        port = int(wait_until(lambda: re.search(r"health on \S*:(\d+)", sidecar.log()), "the health listener")[1])
        main_port, sidecar.port = sidecar.port, port
        self.assertEqual(self.status(sidecar, "/healthz"), 200)
        self.assertEqual(self.status(sidecar, "/readyz"), 503)
        self.assertEqual(self.status(sidecar, "/metrics", Host="some-service.example.com"), 200)
        for path in ("/", "/status", "/profile?seconds=1", "/debug/pprof/"):
            self.assertEqual(self.status(sidecar, path, **bearer(TOKEN)), 404)
        self.assertEqual(self.probe("live", "-url", f"http://127.0.0.1:{port}"), 0)
        sidecar.port = main_port
        self.assertEqual(self.status(sidecar, "/metrics"), 401)

    # ---- Unix sockets ----

    def unix_status(self, path, target="/healthz", **headers):
        with contextlib.closing(UnixConnection(path)) as connection:
            connection.request("GET", target, headers=headers)
            return connection.getresponse().status

    def test_a_unix_socket(self):
        path = self.bench.folder / "http.sock"
        process, url = self.serve_on(f"unix:{path}")
        self.assertEqual(url, f"unix:{path}")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        curl = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://localhost/healthz"], capture_output=True, timeout=30)
        self.assertEqual(curl.stdout, b"ok\n", curl.stderr)
        self.assertEqual(self.unix_status(path, Host="no-browser-comes-here.example.com"), 200)
        self.assertEqual(self.probe("live", "-listen", f"unix:{path}"), 0)
        self.assertEqual(self.probe("ready", "-url", f"unix:{path}"), 3)
        second = self.run_pillion("serve", "-listen", f"unix:{path}")
        self.assertEqual(second.returncode, 1)
        self.assertIn("another program listens there", second.stderr)
        process.terminate()
        self.assertEqual(process.wait(10), 0)
        self.assertFalse(path.exists())
        self.assertEqual(self.probe("live", "-listen", f"unix:{path}"), 1)

    def test_a_killed_ones_unix_socket_is_taken_over(self):
        path = self.bench.folder / "http.sock"
        first, _ = self.serve_on(f"unix:{path}", "-listen-mode=0660", "-token-file", self.token)
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        self.assertTrue(path.exists())
        self.serve_on(f"unix:{path}", "-listen-mode=0660", "-token-file", self.token)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o660)
        self.assertEqual(self.unix_status(path), 401)
        basic = base64.b64encode(f"pillion:{TOKEN}".encode()).decode()
        self.assertEqual(self.unix_status(path, Authorization=f"Basic {basic}"), 200)
        self.assertEqual(self.probe("live", "-listen", f"unix:{path}", "-token-file", self.token), 0)

    def test_a_file_in_the_way_of_a_unix_socket_stays(self):
        path = self.bench.folder / "http.sock"
        path.write_text("precious")
        done = self.run_pillion("serve", "-listen", f"unix:{path}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no socket", done.stderr)
        self.assertEqual(path.read_text(), "precious")
        missing = self.run_pillion("serve", "-listen", f"unix:{self.bench.folder}/none/http.sock")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("No such file", missing.stderr)

    # ---- Limits ----

    def test_windows_at_a_time(self):
        workload = self.bench.stepped()
        sidecar = self.bench.sidecar("-wait-for-shim=20s")
        sidecar.wait_ready()
        clients = []
        for _ in range(WINDOWS_MAX):
            client = self.enterContext(contextlib.closing(socket.create_connection(("127.0.0.1", sidecar.port), timeout=60)))
            client.sendall(b"GET /profile?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            clients.append(client)
        wait_until(lambda: windows_open(sidecar) == WINDOWS_MAX, "all windows to be open", 30)
        error = sidecar.get_json("/profile?seconds=1", expect=429)["error"]
        self.assertEqual(error["code"], "too_many_windows")
        self.assertEqual(self.status(sidecar), 200)  # the quick paths have threads left
        clients.pop().close()
        # Its place is free when its answer has nowhere to go, a moment after the window has ended.
        wait_until(lambda: sidecar.metric("pillion_http_windows_running") < WINDOWS_MAX, "the window of who hung up to end", 30)
        with Window(sidecar, 1) as window:
            workload.launch(100)
        self.assert_launches(window.take(), 100)

    def sockets_of(self, pid):
        count = 0
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += os.readlink(link).startswith("socket:")
        return count

    def test_connections_and_heads(self):
        sidecar = self.bench.sidecar("-wait-for-shim=0")
        idle = [self.enterContext(contextlib.closing(socket.create_connection(("127.0.0.1", sidecar.port), timeout=10)))
                for _ in range(CONNECTIONS_MAX + 50)]  # fmt: skip
        self.assertEqual(self.status(sidecar), 200)
        self.assertEqual(idle[0].recv(1), b"")  # the one that waited longest went
        wait_until(lambda: self.sockets_of(sidecar.process.pid) < CONNECTIONS_MAX + 10, "the others over the limit to go")
        with contextlib.closing(socket.create_connection(("127.0.0.1", sidecar.port), timeout=10)) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_MAX // 6 + 1))
            self.assertIn(b" 431 ", client.recv(4096).split(b"\r\n")[0])


if __name__ == "__main__":
    main(at_once=4)
