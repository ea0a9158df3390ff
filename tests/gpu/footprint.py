# SPDX-License-Identifier: Apache-2.0
"""What a process holds, seen from outside: descriptors, threads, memory, memory of the device."""
import collections
import os
import pathlib
import re
import shutil
import subprocess


class Footprint:
    def __init__(self, pid):
        process = pathlib.Path("/proc") / str(pid)
        self.descriptors = collections.Counter(target_of(entry) for entry in (process / "fd").iterdir())
        self.threads = collections.Counter(name_of(task) for task in (process / "task").iterdir())
        rss = re.search(r"VmRSS:\s+(\d+)", (process / "status").read_text())
        assert rss, f"process {pid} has died"  # a zombie has no memory
        self.rss_kib = int(rss[1])
        self.mappings = resident_by_mapping((process / "smaps").read_text())
        self.device_mib = device_memory_mib()

    def text(self):
        device = "not measured" if self.device_mib is None else f"{self.device_mib} MiB"
        return (f"{sum(self.descriptors.values())} fds, {sum(self.threads.values())} threads, "
                f"RSS {self.rss_kib / 1024:.1f} MiB, device {device}")

    def grown_mappings(self, before, most=6):
        """The mappings that hold more than before: those that grew most, in KiB."""
        return ", ".join(f"{name} +{kib}" for name, kib in (self.mappings - before.mappings).most_common(most))

    def new_descriptors(self, before):
        return sorted((self.descriptors - before.descriptors).elements())

    def new_threads(self, before):
        return sorted((self.threads - before.threads).elements())


def resident_by_mapping(smaps):
    """KiB by name; those without one by their size."""
    resident, name = collections.Counter(), ""
    for line in smaps.splitlines():
        range_of = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)", line)
        if range_of:
            kib = (int(range_of[2], 16) - int(range_of[1], 16)) >> 10
            name = range_of[3].rsplit("/", 1)[-1] or f"anonymous of {kib} KiB"
        elif line.startswith("Rss:"):
            resident[name] += int(line.split()[1])
    return resident


def target_of(entry):
    try:
        return re.sub(r"\d+", "N", os.readlink(entry))  # socket:[N], not a number of the moment
    except OSError:
        return "gone"


def name_of(task):
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return "gone"


def device_memory_mib():
    """All that is in use on the device: the section is alone there. None without nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return None
    found = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                           capture_output=True, text=True, timeout=20)
    numbers = re.findall(r"\d+", found.stdout)
    return int(numbers[0]) if numbers else None
