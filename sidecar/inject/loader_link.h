// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "inject/loader_page.h"
#include "inject/target_process.h"

namespace pillion::inject {

// Asks the loader in the target to call functions and make system calls, one at a time. One thread's. When it
// goes, the loader is told to end, and the target is as before but for what was asked for.
class LoaderLink {
 public:
  using Arguments = std::array<std::uint64_t, 6>;

  // `file`: the loader's memory file. Waits for the loader's first answer.
  [[nodiscard]] static Result<LoaderLink> create(UniqueFd file, const TargetProcess& target);

  LoaderLink(LoaderLink&& other) noexcept = default;
  ~LoaderLink();

  // The value that the kernel gave, -errno for a failure. `slot`: a successful result is a descriptor to be
  // closed when the loader ends, kept in that slot (LoaderData::kept).
  [[nodiscard]] Result<std::int64_t> system_call(std::int64_t number, const Arguments& arguments,
                                                 int slot = -1);
  [[nodiscard]] Result<std::uint64_t> call(std::uint64_t function, const Arguments& arguments);

  // Puts bytes into the shared data at `offset` behind kTextOffset; where they are in the target.
  [[nodiscard]] std::uint64_t put(std::size_t offset, const void* bytes, std::size_t size);
  void get(std::size_t offset, void* bytes, std::size_t size) const;
  [[nodiscard]] std::uint64_t put_text(std::size_t offset, std::string_view text);

  // What the loader closes when it ends; -1: nothing, it stays open.
  void keep(int slot, std::int64_t number);

  // Tells the loader to end and waits until its thread is gone, at most a second. Idempotent.
  void dismiss();

 private:
  struct Unmap {
    void operator()(LoaderData* data) const;
  };

  LoaderLink(std::unique_ptr<LoaderData, Unmap> data, const TargetProcess& target)
      : data_(std::move(data)), target_(&target) {}
  [[nodiscard]] Result<void> ask();

  std::unique_ptr<LoaderData, Unmap> data_;
  const TargetProcess* target_;
  std::int64_t loader_tid_ = 0;
};

}  // namespace pillion::inject
