// SPDX-License-Identifier: Apache-2.0
#include "session/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

using namespace pillion::session;

namespace {

const RingGeometry kSmall{2, 16u << 10, 3, 64u << 10, 4, 64u << 10};

// As the shim maps them: what it finds by the header's offsets must be what the sidecar sees.
class ShimView {
 public:
  ShimView(int fd, std::uint64_t bytes) : bytes_(bytes) {
    start_ = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    REQUIRE(start_ != MAP_FAILED);
  }
  ~ShimView() { ::munmap(start_, bytes_); }
  [[nodiscard]] const pillion_region_header& header() const {
    return *reinterpret_cast<pillion_region_header*>(start_);
  }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return start_ + offset; }

 private:
  std::byte* start_;
  std::uint64_t bytes_;
};

// Looks for the events region while another thread makes it, and forbids further seals on it. Our own
// descriptor of it, or -1 when `made` came first.
int forbid_seals(const std::atomic<bool>& made) {
  while (!made) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry, gone).string();
      if (target.find("memfd:pillion-events") == std::string::npos) continue;
      const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
      if (fd >= 0 && ::fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0 && ::fcntl(fd, F_GET_SEALS) == F_SEAL_SEAL)
        return fd;
      if (fd >= 0) ::close(fd);
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("three sealed regions whose headers say where everything is") {
  const auto budget = std::make_shared<RingBudget>();
  const auto made = RingMemory::create(kSmall, 77, budget);
  REQUIRE(made.has_value());
  RingMemory& memory = **made;
  const pillion::SharedRings rings = memory.rings();
  CHECK(memory.sizes()[0] + memory.sizes()[1] + memory.sizes()[2] == kSmall.total_bytes());
  for (std::size_t i = 0; i < 3; ++i) {
    const int fd = memory.fds()[i];
    struct stat status {};
    REQUIRE(::fstat(fd, &status) == 0);
    CHECK(static_cast<std::uint64_t>(status.st_size) == memory.sizes()[i]);
    CHECK(static_cast<std::uint64_t>(status.st_blocks) * 512 == memory.sizes()[i]);  // populated
    CHECK(::fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    CHECK(::ftruncate(fd, 0) != 0);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    const ShimView view(fd, memory.sizes()[i]);
    CHECK(view.header().magic == PILLION_ABI_MAGIC);
    CHECK(view.header().kind == i + 1);
    CHECK(view.header().generation == 77);
    CHECK(view.header().region_bytes == memory.sizes()[i]);
    CHECK(view.header().ready == PILLION_REGION_READY);
  }

  const ShimView events(memory.fds()[0], memory.sizes()[0]);
  auto* ring = reinterpret_cast<pillion_ring*>(events.at(events.header().rings_offset));
  ring[1].head = 4'242;
  CHECK(rings.events.rings[1].head == 4'242);
  *events.at(events.header().data_offset + events.header().ring_bytes) = std::byte{9};
  CHECK(rings.events.data[rings.events.ring_bytes] == std::byte{9});
  reinterpret_cast<pillion_counters*>(events.at(events.header().counters_offset))->launches = 5;
  CHECK(rings.counters->launches == 5);
  CHECK(events.header().data_offset + std::uint64_t{2} * (16u << 10) == memory.sizes()[0]);

  const ShimView arena(memory.fds()[2], memory.sizes()[2]);
  CHECK(arena.header().ring_count == 4);
  reinterpret_cast<pillion_module_slot*>(arena.at(arena.header().rings_offset))[3].module = 12;
  CHECK(rings.arena.slots[3].module == 12);
  CHECK(arena.header().data_offset + rings.arena.data_bytes == memory.sizes()[2]);
}

// READY is the last word: whoever sees it finds all the rest, the seals too.
TEST_CASE("a region that could not be sealed never says READY") {
  const RingGeometry large{1,         128u << 20, 1,
                           16u << 10, 4,          64u << 10};  // populating it leaves time to find it
  int unsealed = 0;
  for (int tries = 0; tries < 20 && unsealed == 0; ++tries) {
    std::atomic<bool> made{false};
    int fd = -1;
    std::thread other([&] { fd = forbid_seals(made); });
    const auto memory = RingMemory::create(large, 78, std::make_shared<RingBudget>());
    made = true;
    other.join();
    if (fd < 0) continue;
    if (!memory.has_value()) {
      ++unsealed;
      std::uint32_t ready = 1;
      CHECK(::pread(fd, &ready, sizeof ready, offsetof(pillion_region_header, ready)) == sizeof ready);
      CHECK(ready == 0);
    }
    ::close(fd);
  }
  CHECK(unsealed == 1);
}

TEST_CASE("impossible geometries are refused by name") {
  const auto budget = std::make_shared<RingBudget>();
  const auto refuse = [&](auto change) {
    RingGeometry geometry = kSmall;
    change(geometry);
    CHECK_FALSE(RingMemory::create(geometry, 1, budget).has_value());
  };
  refuse([](RingGeometry& g) { g.events_rings = 0; });
  refuse([](RingGeometry& g) { g.stacks_rings = 65; });
  refuse([](RingGeometry& g) { g.events_ring_bytes = 3u << 12; });
  refuse([](RingGeometry& g) { g.stacks_ring_bytes = 2'048; });
  refuse([](RingGeometry& g) { g.module_slots = 0; });
  refuse([](RingGeometry& g) { g.arena_data_bytes = 100; });
  CHECK(budget->sessions() == 0);
}

TEST_CASE("the budget is held as long as anybody holds the rings") {
  const auto budget = std::make_shared<RingBudget>(kSmall.total_bytes() * 2, 64);
  auto first = RingMemory::create(kSmall, 1, budget);
  auto second = RingMemory::create(kSmall, 2, budget);
  REQUIRE((first.has_value() && second.has_value()));
  const auto third = RingMemory::create(kSmall, 3, budget);
  REQUIRE_FALSE(third.has_value());
  CHECK(third.error().message().find("-ring-budget") != std::string::npos);
  pillion::SharedRings rings = (*first)->rings();
  first->reset();
  CHECK(budget->sessions() == 2);  // a collector may still drain them
  rings = {};
  CHECK(budget->sessions() == 1);
  CHECK(budget->bytes() == kSmall.total_bytes());
  CHECK(RingMemory::create(kSmall, 3, budget).has_value());
  CHECK(budget->refused() == 1);
}

TEST_CASE("no more sessions than -max-sessions") {
  const auto budget = std::make_shared<RingBudget>(RingBudget::kBytesDefault, 1);
  const auto first = RingMemory::create(kSmall, 1, budget);
  const auto second = RingMemory::create(kSmall, 2, budget);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().message().find("-max-sessions") != std::string::npos);
}
