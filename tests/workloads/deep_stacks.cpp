// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>

#include "workload.h"

// Launches at the end of deep and varied call paths, in code without frame pointers: recursion, templates,
// virtual calls, a callback out of libc's qsort. The truth says how often each path launched; its functions
// carry the names that a profile must show.
namespace deep {

struct Path {
  workload::Device* device;
  CUstream stream;
  std::uint64_t spin_ns;
};

std::uint64_t g_launches[4];

__attribute__((noinline)) void launch_leaf(const Path& path, int which) {
  CHECK(path.device->launch(static_cast<std::uint64_t>(which), path.stream, path.spin_ns));
  ++g_launches[which];
}

// The barriers keep the compiler from turning the calls into jumps.
__attribute__((noinline)) void recurse(const Path& path, int depth) {
  volatile char frame[64] = {static_cast<char>(depth)};
  if (depth > 0) {
    recurse(path, depth - 1);
  } else {
    launch_leaf(path, 0);
  }
  asm volatile("" ::"r"(&frame) : "memory");
}

template <int Depth>
struct Nested {
  __attribute__((noinline)) static void call(const Path& path) {
    Nested<Depth - 1>::call(path);
    asm volatile("" ::: "memory");
  }
};
template <>
struct Nested<0> {
  __attribute__((noinline)) static void call(const Path& path) {
    launch_leaf(path, 1);
    asm volatile("" ::: "memory");
  }
};

struct Layer {
  virtual ~Layer() = default;
  virtual void forward(const Path& path) const = 0;
};
struct Leaf final : Layer {
  void forward(const Path& path) const override {
    launch_leaf(path, 2);
    asm volatile("" ::: "memory");
  }
};
struct Block final : Layer {
  explicit Block(std::unique_ptr<Layer> inner) : inner_(std::move(inner)) {}
  void forward(const Path& path) const override {
    // A frame whose size the compiler does not know: it must use a frame register of its own.
    auto* scratch =
        static_cast<volatile char*>(__builtin_alloca(16 + reinterpret_cast<std::uintptr_t>(this) % 64));
    scratch[0] = 1;
    inner_->forward(path);
    asm volatile("" ::"r"(scratch) : "memory");
  }
  std::unique_ptr<Layer> inner_;
};

thread_local const Path* t_path;  // qsort's comparison takes no argument of ours

int compare_and_launch(const void* a, const void* b) {
  launch_leaf(*t_path, 3);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

// Two elements: one comparison (AddressSanitizer's qsort makes two).
__attribute__((noinline)) void through_qsort(const Path& path) {
  int pair[2] = {2, 1};
  t_path = &path;
  std::qsort(pair, 2, sizeof pair[0], compare_and_launch);
  asm volatile("" ::"r"(pair) : "memory");
}

}  // namespace deep

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const deep::Path path{&device, stream, options.spin_ns};
  std::unique_ptr<deep::Layer> model = std::make_unique<deep::Leaf>();
  for (int i = 0; i < 10; ++i) model = std::make_unique<deep::Block>(std::move(model));
  const std::uint64_t begin = workload::now_ns();
  workload::Pacer pacer(options.rate / 4, options.seconds);  // four launches a round
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    deep::recurse(path, options.nodes);
    deep::Nested<16>::call(path);
    model->forward(path);
    deep::through_qsort(path);
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  const auto count = [](int i) { return std::to_string(deep::g_launches[i]); };
  std::uint64_t launches = 0;
  for (const std::uint64_t path_launches : deep::g_launches) launches += path_launches;
  workload::print_truth("deep_stacks", launches, elapsed, device.counts(),
                        ",\"paths\":{\"recurse\":" + count(0) + ",\"Nested\":" + count(1) +
                            ",\"Block\":" + count(2) + ",\"through_qsort\":" + count(3) + "}");
}
