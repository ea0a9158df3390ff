#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what ctest ran, from its JUnit files, and judges the skips.

    scripts/ctest_summary.py EXPECTED_SKIPS CONDITIONS FILE...

CONDITIONS: those that hold on this machine, separated by commas. Prints each failure and skip, then as its last line
PASSED FAILED SKIPPED, three numbers. A skip that EXPECTED_SKIPS does not allow here counts as a failure, and so does
a file that holds no test at all.
"""

import re
import sys
import xml.etree.ElementTree


def read_expected(path, conditions):
    """Patterns of test names that may be skipped under these conditions."""
    patterns = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split(None, 2)
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 3:
                sys.exit(f"{path}: needs a test, a condition and a reason: {line.strip()}")
            if words[1] in conditions:
                patterns.append(words[0])
    return patterns


def judge(path, patterns):
    """(passed, failed, skipped) of one JUnit file."""
    passed = failed = skipped = 0
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    if not cases:
        print(f"{path}: no test ran")
        return 0, 1, 0
    for case in cases:
        name, status = case.get("name"), case.get("status")
        if status == "run":
            passed += 1
        elif status == "disabled" or case.find("skipped") is not None:
            allowed = any(re.fullmatch(pattern, name) for pattern in patterns)
            why = case.find("skipped").get("message", "") if case.find("skipped") is not None else ""
            print(f"{'skipped' if allowed else 'NOT RUN, AND THAT WAS NOT EXPECTED'}: {name} {why}".rstrip())
            skipped, failed = (skipped + 1, failed) if allowed else (skipped, failed + 1)
        else:
            print(f"FAILED: {name} ({status})")
            failed += 1
    return passed, failed, skipped


def main():
    expected, conditions, *files = sys.argv[1:]
    patterns = read_expected(expected, set(conditions.split(",")))
    totals = [sum(column) for column in zip(*(judge(path, patterns) for path in files))] or [0, 1, 0]
    print(*totals)


if __name__ == "__main__":
    main()
