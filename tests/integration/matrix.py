# SPDX-License-Identifier: Apache-2.0
"""Runs the rows of a matrix test beside each other, as most of a row is waiting. PILLION_ROWS=REGEX takes some."""
import concurrent.futures
import dataclasses
import os
import re
import unittest


@dataclasses.dataclass
class Row:
    """One fault and what must come of it: run(test) asserts that. `skip`: why it cannot run on this machine."""
    name: str
    run: object
    skip: str = ""


def run_rows(test, rows, workers=4):
    """A subtest for each row, in their order; the rows that fail do not stop the others."""
    chosen = [row for row in rows if re.search(os.environ.get("PILLION_ROWS", ""), row.name)]
    names = [row.name for row in rows]
    test.assertEqual(len(names), len(set(names)), "rows of the same name")
    test.assertTrue(chosen, "no row of that name")
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running = [(row, None if row.skip else pool.submit(row.run, test)) for row in chosen]
        for row, future in running:
            with test.subTest(row.name):
                if future is None:
                    raise unittest.SkipTest(row.skip)
                future.result()
