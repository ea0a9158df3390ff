# SPDX-License-Identifier: Apache-2.0
"""How long and how often, from the environment."""
import os

CYCLES = int(os.environ.get("GPU_CHECK_CYCLES", "20"))
SECONDS = float(os.environ.get("GPU_CHECK_ATTACH_SECONDS", "400"))  # the whole section
SPOIL = ("--spoil", os.environ["GPU_CHECK_SPOIL"]) if "GPU_CHECK_SPOIL" in os.environ else ()  # to see it found
# What cuptiFinalize itself leaves behind, CUDA 13.0, driver 580, H200: a client that does nothing but subscribe, enable and
# finalize grows by 0.62 MiB of device memory a cycle (arming_facts growth_finalized).
DEVICE_MIB_A_CYCLE = 0.65
