# SPDX-License-Identifier: Apache-2.0
"""How long and how often, from the environment."""
import os

CYCLES = int(os.environ.get("GPU_CHECK_CYCLES", "20"))
SECONDS = float(os.environ.get("GPU_CHECK_ATTACH_SECONDS", "300"))  # the whole section
SPOIL = ("--spoil", os.environ["GPU_CHECK_SPOIL"]) if "GPU_CHECK_SPOIL" in os.environ else ()  # to see it found
