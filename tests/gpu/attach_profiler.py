# SPDX-License-Identifier: Apache-2.0
"""torch.profiler beside Pillion: its full result while we are asleep and after our detach, 409 from us while it has CUPTI,
and for good after it unless the program runs with TEARDOWN_CUPTI=1."""
from gpu_harness import GpuBench, TorchWorkload, executions, process_row, wait_until

ITERATIONS = 100


def counts(kernels):
    return {name: row["count"] for name, row in kernels.items()}


def profiled(sidecar, workload):
    """Our own window around iterations; the profile."""
    workload.send("loop")
    try:
        return sidecar.profile(1)
    finally:
        workload.send("")
        workload.answer()


def wait_detached(sidecar, workload):
    """A few iterations give it an API call to finalize in."""
    def detached():
        workload.ask("run 2")
        return process_row(sidecar, workload.pid)["state"] == "connected"

    wait_until(detached, "the shim to have detached", 20)
    return process_row(sidecar, workload.pid)["last_disarm"]


def compare(table, what, kernels, expected):
    seen, wanted = sum(counts(kernels).values()), sum(expected.values())
    table.add("attach", f"torch.profiler {what}: events / without Pillion", f"{seen} / {wanted}", "equal, by name",
              counts(kernels) == expected and wanted > 0)


def refusal(sidecar):
    status, _, body = sidecar.request("/profile?seconds=1&format=json", timeout=60)
    return status, body.decode(errors="replace")


def row_of_refusal(table, what, status, text):
    table.add("attach", f"/profile {what}", f"{status}: {text[:500]}", "409 that names TEARDOWN_CUPTI=1",
              status == 409 and "TEARDOWN_CUPTI" in text)


def run(table):
    with GpuBench("attach-profiler-without") as alone:
        reference = TorchWorkload(alone, "inference", alone.environment(shim=False))
        with GpuBench("attach-profiler") as keeping, GpuBench("attach-profiler-teardown") as giving:
            # Started together: most of the time goes into their imports.
            keeper = TorchWorkload(keeping, "inference")
            giver = TorchWorkload(giving, "inference", TEARDOWN_CUPTI=1)
            expected = counts(reference.under_torch_profiler(ITERATIONS))
            reference.send("quit")
            keeps_it(table, keeping, keeper, expected)
            keeper.send("quit")
            gives_it_back(table, giving, giver, expected)


def keeps_it(table, bench, workload, expected):
    """Without TEARDOWN_CUPTI: our detach first, then torch.profiler, which keeps CUPTI."""
    workload.wait_ready()
    sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
    sidecar.wait_ready()
    table.add("attach", "our profile before torch.profiler", executions(profiled(sidecar, workload)), "> 0")
    table.add("attach", "our detach before torch.profiler", wait_detached(sidecar, workload))
    box = []
    kernels = workload.under_torch_profiler(ITERATIONS, lambda: box.append(refusal(sidecar)))
    compare(table, "after our detach", kernels, expected)
    row_of_refusal(table, "while torch.profiler runs", *box[0])
    row_of_refusal(table, "after it, without TEARDOWN_CUPTI=1", *refusal(sidecar))
    workload.ask("run 20")
    table.add("attach", "the program after two refusals", "iterates", "iterates", True)


def gives_it_back(table, bench, workload, expected):
    """With TEARDOWN_CUPTI=1: torch.profiler while we are asleep, then we, then it again."""
    workload.wait_ready()
    sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
    sidecar.wait_ready()
    compare(table, "while we are asleep", workload.under_torch_profiler(ITERATIONS), expected)
    workload.ask("run 20")  # torch.profiler lets go of CUPTI at an API call
    profile = profiled(sidecar, workload)
    table.add("attach", "/profile after it, with TEARDOWN_CUPTI=1", f"200, {executions(profile)} executions", "200",
              executions(profile) > 0)
    table.add("attach", "our detach after torch.profiler", wait_detached(sidecar, workload))
    compare(table, "again, after that", workload.under_torch_profiler(ITERATIONS), expected)
