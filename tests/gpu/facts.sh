#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs driver_facts.cu and asks cuInit what it does with bad injection paths; then the experiments of
# cupti_facts.cpp, arming_facts.cpp and flush_facts.cpp. FACTS names programs of those, EXPERIMENTS what to run of them, and nothing else
# is done then. Needs nvcc and a GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
cupti=$(find "$cuda" -name cupti.h -printf '%h\n' 2>/dev/null | head -1)
cuptilib=$(find "$cuda" / -xdev -name 'libcupti.so.13' -printf '%h\n' 2>/dev/null | head -1)
export LD_LIBRARY_PATH="$cuptilib:${LD_LIBRARY_PATH:-}"
if [[ -z ${FACTS:-} ]]; then
  nvcc -std=c++17 -O1 -I"$cupti" -o "$out/driver_facts" "$here/driver_facts.cu" -L"$cuptilib" -l:libcupti.so.13 -lcuda || exit 1
  "$out/driver_facts"
  "$out/driver_facts" create | sed 's/^/create: /'
  : > "$out/empty.so"; head -c 4096 /dev/urandom > "$out/garbage.so"; cp "$out/garbage.so" "$out/unreadable.so"; chmod 000 "$out/unreadable.so"
  for path in "" "$out/missing.so" "$out/empty.so" "$out/garbage.so" "$out/unreadable.so" "$out" "relative.so"; do
    CUDA_INJECTION64_PATH="$path" "$out/driver_facts" create > "$out/log" 2>&1
    echo "fact injection path '${path##*/}': exit $? output lines $(wc -l < "$out/log") first: $(head -1 "$out/log" | cut -c1-80)"
  done
fi
# Corners of CUPTI that the shim's lifecycle depends on, one process each: a crash is a fact, too.
root=$(cd "$here/../.." && pwd)
for program in ${FACTS:-cupti_facts arming_facts flush_facts}; do
  nvcc -std=c++20 -O1 -I"$root/shim" -I"$root/tests/simgpu" -I"$root/tests/workloads" -o "$out/$program" \
    "$here/$program.cpp" "$here/cupti_client.cpp" "$root/tests/workloads/workload.cpp" "$root/tests/workloads/kernels.cpp" \
    "$root/tests/workloads/options.cpp" -lcuda || exit 1
  for experiment in ${EXPERIMENTS:-$("$out/$program")}; do
    timeout -s KILL 60 "$out/$program" "$experiment" > "$out/log" 2>&1
    code=$?
    head -60 "$out/log"
    echo "fact $experiment: exit $code"
  done
done
