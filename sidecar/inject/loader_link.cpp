// SPDX-License-Identifier: Apache-2.0
#include "inject/loader_link.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "inject/stopped_thread.h"

namespace pillion::inject {
namespace {

constexpr std::uint64_t kAnswerNs =
    8'000'000'000;  // dlopen of a library on a slow disk; less than the loader's patience
constexpr std::uint64_t kEndNs = 1'000'000'000;
constexpr long kLookNs = 20'000'000;  // between two looks whether the target lives

std::atomic_ref<std::uint32_t> state_of(LoaderData& data) {
  return std::atomic_ref<std::uint32_t>(data.state);
}

void wait_while(LoaderData& data, LoaderState state) {
  const timespec limit{0, kLookNs};
  ::syscall(SYS_futex, &data.state, FUTEX_WAIT, static_cast<std::uint32_t>(state), &limit, nullptr, 0);
}

void wake(LoaderData& data) { ::syscall(SYS_futex, &data.state, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

std::byte* text_of(LoaderData& data) { return reinterpret_cast<std::byte*>(&data) + kTextOffset; }

}  // namespace

void LoaderLink::Unmap::operator()(LoaderData* data) const { ::munmap(data, kDataBytes); }

Result<LoaderLink> LoaderLink::create(UniqueFd file, const TargetProcess& target) {
  void* mapped = ::mmap(nullptr, kDataBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), kCodeBytes);
  if (mapped == MAP_FAILED) return fail_errno("map", "the loader's data");
  LoaderLink link(std::unique_ptr<LoaderData, Unmap>(static_cast<LoaderData*>(mapped)), target);
  auto tid = link.system_call(SYS_gettid, {});
  if (!tid) return tl::make_unexpected(tid.error());
  link.loader_tid_ = *tid;
  auto named = link.system_call(SYS_prctl, {PR_SET_NAME, link.put_text(0, "pillion-loader")});
  if (!named) return tl::make_unexpected(named.error());
  return link;
}

LoaderLink::~LoaderLink() {
  if (data_) dismiss();
}

Result<void> LoaderLink::ask() {
  auto state = state_of(*data_);
  std::uint32_t before = state.load(std::memory_order_acquire);
  const auto request = static_cast<std::uint32_t>(LoaderState::request);
  if (before > static_cast<std::uint32_t>(LoaderState::done) || before == request ||
      !state.compare_exchange_strong(before, request, std::memory_order_acq_rel)) {
    return fail("ask the loader in process", std::to_string(target_->pid()), "it has given up waiting");
  }
  wake(*data_);
  const std::uint64_t deadline = monotonic_now_ns() + kAnswerNs;
  while (state.load(std::memory_order_acquire) == request) {
    wait_while(*data_, LoaderState::request);
    if (!target_->alive())
      return fail("inject into process", std::to_string(target_->pid()), "it ended meanwhile");
    if (monotonic_now_ns() > deadline) {
      return fail("inject into process", std::to_string(target_->pid()),
                  "the new thread in it got no answer in 8 s: the process is stopped, or a lock of its "
                  "dynamic linker "
                  "is held");
    }
  }
  if (state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(LoaderState::done)) return {};
  return fail("ask the loader in process", std::to_string(target_->pid()), "it has ended");
}

Result<std::int64_t> LoaderLink::system_call(std::int64_t number, const Arguments& arguments, int slot) {
  data_->function = 0;
  data_->number = number;
  std::memcpy(data_->arguments, arguments.data(), sizeof data_->arguments);
  data_->also = slot < 0
                    ? offsetof(LoaderData, result)
                    : offsetof(LoaderData, kept) + static_cast<std::size_t>(slot) * sizeof data_->kept[0];
  if (auto done = ask(); !done) return tl::make_unexpected(done.error());
  return data_->result;
}

Result<std::uint64_t> LoaderLink::call(std::uint64_t function, const Arguments& arguments) {
  data_->function = function;
  std::memcpy(data_->arguments, arguments.data(), sizeof data_->arguments);
  data_->also = offsetof(LoaderData, result);
  if (auto done = ask(); !done) return tl::make_unexpected(done.error());
  return static_cast<std::uint64_t>(data_->result);
}

std::uint64_t LoaderLink::put(std::size_t offset, const void* bytes, std::size_t size) {
  std::memcpy(text_of(*data_) + offset, bytes, size);
  return data_->address + kTextOffset + offset;
}

void LoaderLink::get(std::size_t offset, void* bytes, std::size_t size) const {
  std::memcpy(bytes, text_of(*data_) + offset, size);
}

std::uint64_t LoaderLink::put_text(std::size_t offset, std::string_view text) {
  const std::uint64_t address = put(offset, text.data(), text.size());
  text_of(*data_)[offset + text.size()] = std::byte{0};
  return address;
}

void LoaderLink::keep(int slot, std::int64_t number) { data_->kept[slot] = number; }

void LoaderLink::dismiss() {
  auto state = state_of(*data_);
  std::uint32_t now = state.load(std::memory_order_acquire);
  while (now < static_cast<std::uint32_t>(LoaderState::quit) &&
         !state.compare_exchange_weak(now, static_cast<std::uint32_t>(LoaderState::quit),
                                      std::memory_order_acq_rel)) {
  }
  wake(*data_);
  const std::string task = target_->folder() + "/task/" + std::to_string(loader_tid_);
  const std::uint64_t deadline = monotonic_now_ns() + kEndNs;
  while (loader_tid_ > 0 && ::access(task.c_str(), F_OK) == 0 && monotonic_now_ns() < deadline) {
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace pillion::inject
