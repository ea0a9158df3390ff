# SPDX-License-Identifier: Apache-2.0
"""The workloads that also run on the double: executions equal launches, every stack rooted; with each libcupti."""
import glob
import os

from gpu_harness import GpuBench, harness, stack_endings

whole_run = harness.whole_run

LIBRARIES = ["/opt/nvidia/nsight-compute/*/host/target-linux-x64/libcupti.so.1[123].*",
             "/opt/torch/.venv/lib/python3*/site-packages/nvidia/cu13/lib/libcupti.so.13",
             "/opt/torch/.venv/lib/python3*/site-packages/triton/backends/nvidia/lib/cupti/libcupti.so.12",
             "/usr/local/cuda/targets/x86_64-linux/lib/libcupti.so.13"]


def executions_of(truth):
    """What a workload's own line says that the GPU executed."""
    if "replays" in truth:
        return truth["replays"] * truth["nodes"]
    parts = sum(truth.get(kind, 0) for kind in ("HtoD", "DtoH", "DtoD", "peer", "sets"))
    return truth["launches"] + parts


def one(table, label, name, arguments, seconds=3, **environment):
    with GpuBench() as bench:
        profile, truth = whole_run(bench, name, *arguments, seconds=seconds + 3, **environment)
        quality = profile["quality"]
        count = sum(row["launches"] for row in profile["kernels"])
        expected = executions_of(truth)
        endings = stack_endings(quality)
        taken = sum(endings.values())
        dropped = quality["dropped_executions_busy"] + quality["dropped_executions_full"] + quality["dropped_by_cupti"]
        table.add("workloads", f"{label}: executions seen / made", f"{count} / {expected}, dropped {dropped}", "equal",
                  count + dropped == expected)
        table.add("workloads", f"{label}: stacks rooted", f"{endings.get('rooted', 0)} of {taken}", "all",
                  taken > 0 and endings.get("rooted", 0) == taken)


def versions(table):
    paths = sorted({os.path.realpath(path) for pattern in LIBRARIES for path in glob.glob(pattern)})
    for path in paths:
        with GpuBench() as bench:
            workload = bench.workload("launch_loop", "--seconds", "5", "--rate", "20000", "--threads", "2",
                                      "--streams", "2", PILLION_CUPTI_PATH=path)
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            status, _, body = sidecar.request("/profile?seconds=2&format=json")
            truth = workload.truth()
            name = "/".join(path.split("/")[-2:])
            seen = body.decode()[:160].replace("\n", " ") if status != 200 else "200"
            table.add("versions", name, f"status {status}: {seen}; program made {truth['launches']} launches",
                      "works or refused, program unharmed", True)


def run(table):
    one(table, "launch_loop 8x8", "launch_loop", ["--seconds", "3", "--threads", "8", "--streams", "8", "--rate", "100000"])
    one(table, "copies", "copies", ["--seconds", "3"])
    one(table, "graph_replay", "graph_replay", ["--seconds", "3"])
    one(table, "deep_stacks", "deep_stacks", ["--seconds", "3"])
