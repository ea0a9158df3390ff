// SPDX-License-Identifier: Apache-2.0
#include "shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace pillion::shim::test {
namespace {

constexpr std::uint64_t kRingsOffset = 4096;
constexpr std::uint64_t kCountersOffset = 16384;
constexpr std::uint64_t kDataOffset = 20480;
constexpr std::uint64_t kArenaBytes = 1 << 20;

std::uint64_t round_up(std::uint64_t n) { return (n + 7) & ~std::uint64_t{7}; }

}  // namespace

SharedRegion::SharedRegion(const RegionPlan& plan) {
  const bool arena = plan.kind == PILLION_REGION_ARENA;
  bytes_ = kDataOffset + (arena ? kArenaBytes : std::uint64_t{plan.ring_count} * plan.ring_bytes);
  fd_ = ::memfd_create("pillion-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) throw std::runtime_error("memfd");
  void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("mmap");
  base_ = static_cast<std::uint8_t*>(mapped);
  if (plan.populate) std::memset(base_, 0, bytes_);
  pillion_region_header made{};
  made.magic = PILLION_ABI_MAGIC;
  made.major = PILLION_ABI_MAJOR;
  made.minor = PILLION_ABI_MINOR;
  made.header_size = sizeof made;
  made.kind = plan.kind;
  made.generation = plan.generation;
  made.region_bytes = bytes_;
  made.ring_count = plan.ring_count;
  made.ring_bytes = arena ? 0 : plan.ring_bytes;
  made.rings_offset = kRingsOffset;
  made.counters_offset = plan.kind == PILLION_REGION_EVENTS ? kCountersOffset : 0;
  made.data_offset = kDataOffset;
  std::memcpy(base_, &made, sizeof made);
  if (plan.seals != 0 && ::fcntl(fd_, F_ADD_SEALS, plan.seals) != 0) throw std::runtime_error("seals");
  if (plan.ready) {
    std::atomic_ref<std::uint32_t>(header().ready).store(PILLION_REGION_READY, std::memory_order_release);
  }
}

SharedRegion::~SharedRegion() {
  ::munmap(base_, bytes_);
  ::close(fd_);
}

pillion_ring& SharedRegion::ring(std::uint32_t index) {
  return reinterpret_cast<pillion_ring*>(base_ + header().rings_offset)[index];
}

std::uint64_t SharedRegion::counter(std::uint64_t pillion_counters::*field) {
  auto* counters = reinterpret_cast<pillion_counters*>(base_ + header().counters_offset);
  return std::atomic_ref<std::uint64_t>(counters->*field).load(std::memory_order_relaxed);
}

std::vector<std::vector<std::uint8_t>> SharedRegion::drain(std::uint32_t index) {
  std::vector<std::vector<std::uint8_t>> records;
  pillion_ring& one = ring(index);
  const std::uint64_t head = std::atomic_ref<std::uint64_t>(one.head).load(std::memory_order_acquire);
  std::uint64_t tail = std::atomic_ref<std::uint64_t>(one.tail).load(std::memory_order_relaxed);
  const std::uint64_t mask = header().ring_bytes - 1;
  const std::uint8_t* data = base_ + header().data_offset + std::uint64_t{index} * header().ring_bytes;
  const auto copy = [&](std::uint64_t from, std::uint64_t n) {
    std::vector<std::uint8_t> out(n);
    for (std::uint64_t i = 0; i < n; ++i) out[i] = data[(from + i) & mask];
    return out;
  };
  while (tail < head) {
    const auto start = copy(tail, sizeof(pillion_record_header));
    pillion_record_header record{};
    std::memcpy(&record, start.data(), sizeof record);
    if (record.size < sizeof record || record.size != round_up(record.size) || record.size > head - tail) {
      throw std::runtime_error("broken record in a ring");
    }
    records.push_back(copy(tail, record.size));
    tail += record.size;
  }
  std::atomic_ref<std::uint64_t>(one.tail).store(tail, std::memory_order_release);
  return records;
}

}  // namespace pillion::shim::test
