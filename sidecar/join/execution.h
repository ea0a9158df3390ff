// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "records.h"

namespace pillion::join {

// What the join keeps of a RawExecution, with the time of the drain that found it.
struct Execution {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t arrived_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t name = 0;
  std::uint32_t copy_kind = 0;
  std::uint32_t other_device = 0;  // of a copy between devices, its other end; else equal to device
  ExecutionKind kind = ExecutionKind::kernel;
  bool graph = false;
};

// Chains of executions that wait, in one array with a free list: no allocation per execution once warm.
class ExecutionPool {
 public:
  using Chain = std::uint32_t;  // 0: empty
  static constexpr Chain kEmpty = 0;

  // Puts `execution` in front of `chain`.
  void push(Chain& chain, const Execution& execution) {
    if (free_ == kEmpty) {
      nodes_.push_back({});
      free_ = static_cast<Chain>(nodes_.size());
    }
    const Chain taken = free_;
    Node& node = nodes_[taken - 1];
    free_ = node.next;
    node = {execution, chain};
    chain = taken;
    ++size_;
  }

  // visit(const Execution&) on each, newest first; the chain stays.
  template <typename Visit>
  void for_each(Chain chain, Visit&& visit) const {
    for (; chain != kEmpty; chain = nodes_[chain - 1].next) visit(nodes_[chain - 1].execution);
  }

  // The same, and gives the chain back. `visit` may push: it sees a copy.
  template <typename Visit>
  void drain(Chain& chain, Visit&& visit) {
    while (chain != kEmpty) {
      Node& node = nodes_[chain - 1];
      const Execution execution = node.execution;
      const Chain next = node.next;
      node.next = free_;
      free_ = chain;
      chain = next;
      --size_;
      visit(execution);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  void clear() { *this = {}; }

 private:
  struct Node {
    Execution execution;
    Chain next = kEmpty;
  };
  std::vector<Node> nodes_;
  Chain free_ = kEmpty;
  std::size_t size_ = 0;
};

}  // namespace pillion::join
