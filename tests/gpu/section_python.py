# SPDX-License-Identifier: Apache-2.0
"""Python frames of PyTorch: how many stacks hold the model's own source line, and what reading them costs.

A stack counts once for each snapshot that it was seen in: rows whose label attribution is exact. Backward passes are
launched by threads of autograd's own, on which no Python runs; they are a row of their own. A part that breaks costs the
others nothing.
"""
import collections
import pathlib
import traceback

from gpu_harness import DOUBLE, GpuBench, TorchWorkload, change, harness, median, rounds, wait_until

MODES = ("inference", "training", "compiled")
OWN_FILE = "driver_steps.py" if DOUBLE else "torch_steps.py"
MODEL = "Device.launch" if DOUBLE else "Model.forward"  # all that inference launches is launched under it
WINDOW_S = 2 if DOUBLE else 5
COST_MODES = ("launches", "training")
COST_ROUNDS = 2 if DOUBLE else rounds(10)
COST_STEPS = 50
COST_WINDOW_S = 2 if DOUBLE else 3
ALL_BUT_PYTHON = "kernel,memcpy,memset,overhead,stacks,modules,sync,calls"


def python_frames(profile, stack):
    """(function, base name of the file, line), leaf first"""
    frames = (profile["frames"][number] for number in stack["frames"])
    lines = (frame["lines"][0] for frame in frames if frame.get("python"))
    return [(line["function"], pathlib.Path(line.get("file", "")).name, line.get("line", 0)) for line in lines]


def looped(sidecar, workload, **parameters):
    """A window over a loop of steps."""
    with harness.Window(sidecar, WINDOW_S, **parameters) as window:
        workload.send("loop")
    profile = window.take()
    workload.send("")
    workload.answer()
    return profile


class Snapshots:
    """The snapshots of a profile by what their stacks hold."""

    def __init__(self, profile):
        self.all = self.own = self.model = self.with_python = 0
        self.without = collections.Counter()  # by thread name
        self.lines = collections.Counter()
        rows = [stack for stack in profile["stacks"] if stack["labels"]["attribution"] == "exact"]
        threads = {stack["labels"]["thread"] for stack in rows if python_frames(profile, stack)}
        for stack in rows:
            frames, labels = python_frames(profile, stack), stack["labels"]
            if labels["thread"] not in threads:
                self.without[labels.get("thread_name", "unnamed")] += stack["launches"]
                continue
            self.all += stack["launches"]
            own = [frame for frame in frames if frame[1] == OWN_FILE and frame[2] > 0]
            self.with_python += stack["launches"] if frames else 0
            self.own += stack["launches"] if own else 0
            self.model += stack["launches"] if any(frame[0] in (MODEL, "forward") for frame in own) else 0
            if own:
                self.lines[own[0]] += stack["launches"]

    def share(self, of):
        return 100.0 * of / max(1, self.all)


def frames_rows(table, mode, profile):
    found, quality = Snapshots(profile), profile["quality"]
    table.add("python", f"{mode}: interpreter", quality["python"], "in force", "in force" in quality["python"])
    own, model = found.share(found.own), found.share(found.model)
    table.add("python", f"{mode}: snapshots on threads that run Python with a line of {OWN_FILE}",
              f"{own:.2f} % of {found.all}, any Python {found.with_python}", ">= 99 %", found.all > 0 and own >= 99)
    # A training step launches outside of the model, too; torch.compile makes code of its own from the model's.
    judged = mode == "inference"
    table.add("python", f"{mode}: of these with a line of {MODEL}", f"{model:.2f} %", ">= 99 %" if judged else "",
              model >= 99 if judged else None)
    table.add("python", f"{mode}: snapshots on these threads that have no Python frame", found.all - found.with_python)
    table.add("python", f"{mode}: snapshots on threads without Python, by the thread's name", dict(found.without) or "none")
    table.add("python", f"{mode}: lines of {OWN_FILE}, innermost in a stack",
              [f"{function}:{line} {count}" for (function, _, line), count in found.lines.most_common(8)])
    wrong = {name: quality[name] for name in ("python_runs_unplaced", "python_snapshots_partial",
                                              "python_codes_refused", "python_frames_unnamed") if quality[name]}
    table.add("python", f"{mode}: {quality['python_frames']} Python frames in {quality['python_runs']} runs, "
              f"{quality['python_codes']} code objects; not whole", wrong or "none", "< 1 % of the runs",
              sum(wrong.values()) <= quality["python_runs"] / 100)
    table.add("python", f"{mode}: native frames of the interpreter's loop left over", quality["python_native_left"])


def connected(sidecar, workload):
    workload.ask("run 1")  # CUPTI is let go of at an API call
    return sidecar.get_json("/status")["processes"][0]["state"] == "connected"


def cost_rows(table, sidecar, workload, mode):
    """Windows with and without Python frames in turns, over the same process."""
    steps, per_launch, walks, refused = {"on": [], "off": []}, {"on": [], "off": []}, [], 0
    for at in range(2 * COST_ROUNDS):
        which = "on" if at % 4 in (0, 3) else "off"
        kinds = ALL_BUT_PYTHON + (",python" if which == "on" else "")  # else the same
        wait_until(lambda: connected(sidecar, workload), "the shim to have detached", 20)
        with harness.Window(sidecar, COST_WINDOW_S, kinds=kinds) as window:
            sidecar.wait_state(workload.pid, "armed", 20)
            steps[which].append(workload.ask(f"speed {COST_STEPS}")["median_us"])
        quality = window.take()["quality"]
        per_launch[which].append(quality["shim_ns_per_launch"])
        refused += quality["python_codes_refused"]
        if quality["python_snapshots"]:
            walks.append(quality["python_walk_ns"] / quality["python_snapshots"])
    on, off = median(steps["on"]), median(steps["off"])
    pairs = [change(a, b) for a, b in zip(steps["on"], steps["off"])]
    table.add_speed("python", f"{mode}: step with Python frames / without, medians of {COST_ROUNDS} windows each in turns",
                    f"{on:.1f} / {off:.1f} us: {change(on, off):+.2f} % (pairs {min(pairs):+.2f} to {max(pairs):+.2f} %, "
                    f"median {median(pairs):+.2f} %)", "<= +1 %", median(pairs) <= 1)
    table.add("python", f"{mode}: shim's ns a launch with / without",
              f"{median(per_launch['on']):.0f} / {median(per_launch['off']):.0f}")
    walk = median(walks) if walks else 0
    interned = mode == "launches"  # the other comes by new code objects in each window
    table.add_speed("python", f"{mode}: reading the frames of one snapshot", f"{walk:.0f} ns, first sights included",
                    "<= 300 ns" if interned else "", 0 < walk <= 300 if interned else None)
    table.add("python", f"{mode}: code objects refused in {COST_ROUNDS} windows", refused, "0", refused == 0)


def run_mode(table, mode):
    with GpuBench(f"python-{mode}") as bench:
        workload = TorchWorkload(bench, mode).wait_ready()
        workload.ask("run 20")
        sidecar = bench.sidecar("-wait-for-shim", "60s", "-linger", "0s")
        sidecar.wait_ready()
        for wanted, part in ((MODES, lambda: frames_rows(table, mode, looped(sidecar, workload))),
                             (COST_MODES, lambda: cost_rows(table, sidecar, workload, mode))):
            if mode not in wanted:
                continue
            try:
                part()
            except Exception as error:  # the other part's figures are still wanted
                traceback.print_exc()
                table.add("python", f"{mode}: a part broke", repr(error)[:300], "ends", False)


def run(table):
    for mode in dict.fromkeys((*MODES, *COST_MODES)):
        try:
            run_mode(table, mode)
        except Exception as error:  # a mode that does not start: no torch.compile without a C compiler, say
            traceback.print_exc()
            table.add("python", f"{mode}: it broke", repr(error)[:300], "ends", False)
