#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the top kernels of a profile (format=json, schema pillion-profile-1), each with its heaviest stack.

    scripts/demo_report.py FILE [COUNT]
"""

import json
import sys

QUALITY = ("launches", "executions", "joined", "pending", "snapshots", "shim_ns_per_launch", "cupti_version", "driver_version")


def frame_text(frame):
    """Functions of one location, innermost first, as `a <- b` where some are inlined into others."""
    return " <- ".join(
        line["function"] + (f"  {line['file']}:{line['line']}" if "file" in line and "line" in line else "")
        for line in frame["lines"]
    )


def heaviest_stack(profile, name):
    """The stack with most GPU time whose leaf is this kernel; None when no stack was seen."""
    own = [
        stack
        for stack in profile["stacks"]
        if stack["frames"] and profile["frames"][stack["frames"][0]]["lines"][:1]
        and profile["frames"][stack["frames"][0]]["lines"][0]["function"] == name
    ]  # fmt: skip
    return max(own, key=lambda stack: stack["gpu_time_ns"], default=None)


def report(profile, count):
    window_s = profile["window"]["duration_ns"] / 1e9
    total_ns = sum(stack["gpu_time_ns"] for stack in profile["stacks"]) or 1
    for process in profile["processes"]:
        print(f"process {process['pid']} {process['comm']}, window {window_s:.2f} s")
    for kernel in sorted(profile["kernels"], key=lambda entry: -entry["gpu_time_ns"])[:count]:
        share = 100 * kernel["gpu_time_ns"] / total_ns
        print(f"\n{share:5.1f} %  {kernel['gpu_time_ns'] / 1e6:10.2f} ms  {kernel['launches']:9d} x  {kernel['name']}")
        stack = heaviest_stack(profile, kernel["name"])
        for index in stack["frames"][1:] if stack else []:
            print(f"           {frame_text(profile['frames'][index])}")
        if stack is None:
            print("           (no stack was seen)")
    quality = profile["quality"]
    shown = {name: quality[name] for name in QUALITY if name in quality}
    figures = (f"{name} {value:.0f}" if isinstance(value, float) else f"{name} {value}" for name, value in shown.items())
    print("\nquality: " + ", ".join(figures))
    for anomaly in quality["anomalies"]:
        print(f"note: {anomaly['meaning']} ({anomaly['total']} x) {anomaly.get('detail', '')}".rstrip())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        profile = json.load(file)
    report(profile, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    return 0 if profile["kernels"] else 1


if __name__ == "__main__":
    sys.exit(main())
