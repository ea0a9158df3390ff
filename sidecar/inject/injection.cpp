// SPDX-License-Identifier: Apache-2.0
#include "inject/injection.h"

#include <fcntl.h>
#include <linux/un.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "abi/pillion_injection.h"
#include "base/printable.h"
#include "inject/borrowed_thread.h"
#include "inject/loader_link.h"
#include "inject/other_injection.h"
#include "inject/shim_file.h"
#include "inject/shortage.h"
#include "inject/target_library.h"

namespace pillion::inject {
namespace {

constexpr std::size_t kStructureOffset = 4608;  // in the loader's text; what is before it is for paths
constexpr int kDyingMs = 100;
constexpr std::size_t kCuptiHanded = 2;  // the best for the driver, and one more should that not load

// Slots of the loader: what it closes should we die.
enum Slot : int { claim_slot, library_slot, cupti_slot };

template <std::size_t N>
void set_text(char (&to)[N], const std::string& from) {
  const std::size_t bytes = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), bytes);
  to[bytes] = '\0';
}

bool same_directory(const std::string& left, const std::string& right) {
  struct stat first {};
  struct stat second {};
  return ::stat(left.c_str(), &first) == 0 && ::stat(right.c_str(), &second) == 0 && S_ISDIR(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Where the shim listens in a target that was not prepared: the directory that the sidecar watches if both
// see it; else an abstract socket, which all of a pod can reach; else, from another network namespace, a
// directory of the target that is reached through /proc.
struct Meeting {
  std::string directory;  // in the target's own view; empty: abstract
  std::string prefix;     // what makes the target's paths ours
};

Meeting choose_meeting(const Examination& found, const std::string& watched) {
  const std::string root = "/proc/" + std::to_string(found.live_thread) + "/root";
  if (!watched.empty() && same_directory(watched, root + watched)) return {watched, ""};
  if (found.own_network_namespace) return {"", ""};
  const std::string directory = found.file_directory.empty() ? "/tmp" : found.file_directory;
  return {directory, root};
}

class Injection {
 public:
  Injection(const Examination& found, const InjectionSettings& settings, InjectionReport& report)
      : found_(found), settings_(settings), report_(report) {}

  // An error is a failure that is not one of the named outcomes.
  Result<InjectionStatus> run() {
    auto shim = open_shim_file(settings_.shim_path);
    if (!shim) return tl::make_unexpected(shim.error());
    auto target = TargetProcess::open(found_);
    if (!target) return tl::make_unexpected(target.error());
    target_ = std::move(*target);
    if (const auto there = look_for_shim()) return *there;
    const StepObserver observer = [this](Step step) { reached(step); };
    const auto patience =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(settings_.thread_patience).count());
    auto borrowed = borrow_thread(*target_, found_, patience, observer);
    if (!borrowed && may_make_no_memory_file(borrowed.error())) {
      // The second choice: nothing was left behind by the first.
      if (found_.file_directory.empty()) return fail_without_folder(borrowed.error());
      found_.delivery = Delivery::file;
      borrowed = borrow_thread(*target_, found_, patience, observer);
    }
    if (!borrowed) {
      // Another one may have come first since the examination: then that thread is traced already, or stands
      // still.
      if (other_injection_seen()) return InjectionStatus::in_progress;
      return tl::make_unexpected(borrowed.error());
    }
    report_.tid = borrowed->tid;
    report_.stopped_ns = borrowed->stopped_ns;
    if (found_.delivery == Delivery::file) remove_loader_name();
    auto loader = LoaderLink::create(std::move(borrowed->file), *target_);
    if (!loader) return tl::make_unexpected(loader.error());
    auto status = use_loader(*loader, *shim);
    loader->dismiss();
    reached(Step::loader_dismissed);
    return status;
  }

  [[nodiscard]] bool target_lives() const {
    return target_ ? target_->alive(kDyingMs)
                   : ::kill(static_cast<pid_t>(found_.pid), 0) == 0 || errno == EPERM;
  }

 private:
  void reached(Step step) {
    report_.last_step = static_cast<std::uint32_t>(step);
    if (settings_.observer) settings_.observer(step);
  }

  std::optional<InjectionStatus> look_for_shim() {
    const std::string resident = resident_shim(target_->maps());
    if (resident.empty()) return std::nullopt;
    set_text(report_.library, printable(resident));
    return InjectionStatus::already_there;
  }

  // A filter of its own, or vm.memfd_noexec=2.
  [[nodiscard]] bool may_make_no_memory_file(const Error& error) const {
    return found_.delivery == Delivery::memfd && error.operation.starts_with("make a memory file") &&
           (error.number == EPERM || error.number == EACCES || error.number == ENOSYS);
  }

  static tl::unexpected<Error> fail_without_folder(Error error) {
    error.detail =
        "and no folder of its root can hold a file that it may execute: make /tmp, /var/tmp, "
        "/dev/shm or /run one that is writable and not mounted with noexec";
    return tl::make_unexpected(std::move(error));
  }

  // The borrowed thread's filter may be off while it is traced: here is where most refusals come.
  Result<TargetLibrary> make_file(LoaderLink& loader, const std::string& name, int slot) {
    auto library = make_library(loader, found_, name, slot);
    if (library || !may_make_no_memory_file(library.error())) return library;
    if (found_.file_directory.empty()) return fail_without_folder(library.error());
    found_.delivery = Delivery::file;
    return make_library(loader, found_, name, slot);
  }

  // Says whose it is.
  bool other_injection_seen() {
    const std::string who = find_other_injector("/proc", found_.pid);
    set_text(report_.text, who);
    return !who.empty();
  }

  Result<InjectionStatus> use_loader(LoaderLink& loader, const ShimFile& shim) {
    auto claimed = claim(loader);
    if (!claimed) return tl::make_unexpected(claimed.error());
    if (!*claimed) {
      (void)other_injection_seen();
      return InjectionStatus::in_progress;
    }
    reached(Step::claimed);
    if (const auto there = look_for_shim()) return *there;
    auto library = bring_shim(loader, shim);
    if (!library) return tl::make_unexpected(library.error());
    const std::uint64_t base = load_address(
        target_->maps(), library->in_memory ? std::string("/memfd:libpillion.so") : library->path);
    if (base == 0)
      return fail("find the shim in process", std::to_string(found_.pid), "it is loaded, but not mapped");
    if (!library->in_memory) unlink_library(loader, *library);
    reached(Step::library_loaded);
    set_text(report_.library, library->path);
    return start_shim(loader, *library, base + shim.start_offset);
  }

  // A name in the target's network namespace that only one process can hold, and that goes with it.
  Result<bool> claim(LoaderLink& loader) {
    auto socket = loader.system_call(SYS_socket, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0}, claim_slot);
    if (!socket) return tl::make_unexpected(socket.error());
    if (*socket < 0) return kernel_error(*socket, "make a socket in process");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "pillion-inject-" + std::to_string(found_.pid_namespace) + "-" +
                             std::to_string(found_.inner_pid) + "-" + std::to_string(found_.start_time);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    auto bound = loader.system_call(
        SYS_bind, {static_cast<std::uint64_t>(*socket), loader.put(0, &address, sizeof address),
                   offsetof(sockaddr_un, sun_path) + 1 + name.size()});
    if (!bound) return tl::make_unexpected(bound.error());
    if (*bound == -EADDRINUSE) return false;
    if (*bound < 0) return kernel_error(*bound, "bind a socket in process");
    return true;
  }

  Result<TargetLibrary> bring_shim(LoaderLink& loader, const ShimFile& shim) {
    auto library = make_file(loader, "libpillion.so", library_slot);
    if (!library) return library;
    reached(Step::library_made);
    auto done = fill_library(*target_, *library, shim.file.get(), shim.size);
    if (done) {
      reached(Step::library_filled);
      done = load_library(loader, *target_, found_, *library);
    }
    if (done) return library;
    unlink_library(loader, *library);
    return tl::make_unexpected(done.error());
  }

  Result<InjectionStatus> start_shim(LoaderLink& loader, const TargetLibrary& library, std::uint64_t start) {
    pillion_injection asked = question();
    asked.flags = PILLION_INJECTION_ASK;
    auto answer = call_shim(loader, start, asked);
    if (!answer) return tl::make_unexpected(answer.error());
    asked = question();
    asked.library_fd = static_cast<std::int32_t>(library.fd);
    if (answer->mapped_cupti[0] != '\0') {
      set_text(report_.cupti, printable(answer->mapped_cupti));
    } else if (auto brought = bring_cupti(loader, answer->driver_version, asked); !brought) {
      return tl::make_unexpected(brought.error());
    }
    reached(Step::cupti_made);
    answer = call_shim(loader, start, asked);
    if (!answer) return tl::make_unexpected(answer.error());
    // The shim has taken note of its files.
    loader.keep(library_slot, -1);
    for (std::uint32_t at = 0; at < asked.cupti_count; ++at)
      loader.keep(cupti_slot + static_cast<int>(at), -1);
    reached(Step::shim_started);
    if (answer->result != PILLION_INJECTION_STARTED) {
      return fail("start the shim in process", std::to_string(found_.pid), printable(answer->text));
    }
    set_text(report_.socket, socket_for_us(printable(answer->socket_name)));
    return InjectionStatus::injected;
  }

  pillion_injection question() {
    pillion_injection asked{};
    asked.magic = PILLION_INJECTION_MAGIC;
    asked.major = PILLION_ABI_MAJOR;
    asked.minor = PILLION_ABI_MINOR;
    asked.size = sizeof asked;
    asked.library_fd = -1;
    set_text(asked.socket_directory, meeting_.directory);
    std::string uids = std::to_string(::geteuid());
    for (const std::uint32_t uid : settings_.allow_uids) uids += "," + std::to_string(uid);
    set_text(asked.allow_uids, uids);
    set_text(asked.log_path, settings_.log_path);
    return asked;
  }

  Result<pillion_injection> call_shim(LoaderLink& loader, std::uint64_t start,
                                      const pillion_injection& asked) {
    const std::uint64_t address = loader.put(kStructureOffset, &asked, sizeof asked);
    if (auto called = loader.call(start, {address}); !called) return tl::make_unexpected(called.error());
    pillion_injection answer{};
    loader.get(kStructureOffset, &answer, sizeof answer);
    answer.mapped_cupti[sizeof answer.mapped_cupti - 1] = '\0';
    answer.socket_name[sizeof answer.socket_name - 1] = '\0';
    answer.text[sizeof answer.text - 1] = '\0';
    return answer;
  }

  // The newest not above the driver, then the others of its major.
  Result<void> bring_cupti(LoaderLink& loader, std::uint32_t driver_version, pillion_injection& asked) {
    std::vector<CuptiFile> files = settings_.cupti;
    const auto rank = [driver_version](const CuptiFile& file) {
      if (driver_version == 0 || file.cuda_version <= driver_version) return 1'000'000u + file.cuda_version;
      return file.cuda_version / 1000 == driver_version / 1000 ? 1'000'000u - file.cuda_version : 0u;
    };
    std::erase_if(files, [&](const CuptiFile& file) { return rank(file) == 0; });
    std::sort(files.begin(), files.end(),
              [&](const CuptiFile& left, const CuptiFile& right) { return rank(left) > rank(right); });
    if (files.size() > kCuptiHanded) files.resize(kCuptiHanded);
    for (const CuptiFile& file : files) {
      if (auto done = bring_one_cupti(loader, file, asked); !done) return done;
      if (report_.cupti[0] == '\0') set_text(report_.cupti, file.path);
    }
    return {};
  }

  Result<void> bring_one_cupti(LoaderLink& loader, const CuptiFile& file, pillion_injection& asked) {
    const UniqueFd source(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!source.valid() || ::fstat(source.get(), &status) != 0) return fail_errno("open", file.path);
    const int slot = cupti_slot + static_cast<int>(asked.cupti_count);
    auto library = make_file(loader, "libcupti.so." + std::to_string(file.cuda_version), slot);
    if (!library) return tl::make_unexpected(library.error());
    auto done = fill_library(*target_, *library, source.get(), static_cast<std::uint64_t>(status.st_size));
    // Without /proc the shim could not load it later.
    if (done && !library->in_memory) {
      done = load_library(loader, *target_, found_, *library);
      unlink_library(loader, *library);
    }
    if (!done) return done;
    asked.cupti[asked.cupti_count++] = {file.cuda_version, static_cast<std::int32_t>(library->fd)};
    return {};
  }

  [[nodiscard]] std::string socket_for_us(const std::string& name) const {
    return name.starts_with('/') ? meeting_.prefix + name : name;
  }

  void remove_loader_name() const {
    const std::string path = target_->folder() + "/root" + found_.file_directory + "/.pillion-loader-" +
                             std::to_string(::getpid());
    ::unlink(path.c_str());
  }

  tl::unexpected<Error> kernel_error(std::int64_t result, const char* what) const {
    return fail_in_target(what, std::to_string(found_.pid), static_cast<int>(-result), found_.pid);
  }

  Examination found_;  // `delivery` as it is done
  const InjectionSettings& settings_;
  InjectionReport& report_;
  std::optional<TargetProcess> target_;
  const Meeting meeting_ = choose_meeting(found_, settings_.socket_directory);
};

}  // namespace

void run_injection(const Examination& found, const InjectionSettings& settings, InjectionReport& report) {
  Injection injection(found, settings, report);
  const auto status = injection.run();
  const auto outcome = status                     ? *status
                       : injection.target_lives() ? InjectionStatus::failed
                                                  : InjectionStatus::target_gone;
  report.status = static_cast<std::uint32_t>(outcome);
  if (!status) set_text(report.text, status.error().message());
  report.finished = 1;
}

}  // namespace pillion::inject
