// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "simgpu_interface.h"

// Writes activity records, byte for byte as the chosen version lays them out, into the calling thread's
// buffer.
namespace simgpu {

void write_op(const simgpu_op& op, std::uint32_t kind, std::uint32_t correlation);
void write_synchronization(const simgpu_op& op, std::uint32_t correlation);
void write_device(std::uint32_t device);
void write_context(std::uint32_t context, std::uint32_t device, std::uint32_t null_stream);
void write_stream(std::uint32_t context, std::uint32_t stream, int priority, std::uint32_t correlation);
void write_overhead(std::uint32_t overhead_kind, std::uint64_t start_ns, std::uint64_t end_ns);
// A kernel record of somebody else: correlation 0xfffffff0, device 99.
void write_foreign_kernel(std::uint8_t* record, std::size_t size);

void set_latency_timestamps(bool on);

}  // namespace simgpu
