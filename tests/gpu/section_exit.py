# SPDX-License-Identifier: Apache-2.0
"""A program that ends while it is profiled ends as it would have: same status, nothing on stderr."""
import os
import pathlib
import subprocess
import tempfile

from gpu_harness import GpuBench, ROOT

TIMES = int(os.environ.get("GPU_CHECK_EXITS", "6"))


def crash_report():
    out = pathlib.Path(tempfile.gettempdir()) / "pillion-crash-report.so"
    if not out.exists():
        subprocess.run(["g++", "-O1", "-fPIC", "-shared", "-o", out, ROOT / "tests" / "gpu" / "crash_report.cpp"],
                       check=True)
    return out


def run(table):
    for name, arguments in (("launch_loop", ["--threads", "8", "--streams", "8", "--rate", "100000"]),
                            ("launch_loop", ["--threads", "2"]), ("graph_replay", []), ("copies", [])):
        bad = []
        for _ in range(TIMES):
            with GpuBench() as bench:
                workload = bench.workload(name, "--seconds", "1.5", *arguments, LD_PRELOAD=crash_report())
                sidecar = bench.sidecar("-wait-for-shim", "20s")
                sidecar.wait_ready()
                profile = sidecar.profile(3)
                if workload.finish(20) != 0:
                    bad.append(workload.output()[:3000])
                if sum(row["launches"] for row in profile["kernels"]) == 0:
                    bad.append("empty profile")
        for text in bad[:2]:
            print(text, flush=True)
        table.add("exit", f"{name} {' '.join(arguments)}: unharmed at its end under a window",
                  f"{TIMES - len(bad)} of {TIMES}", "all", not bad)
