// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "adverse.h"

// System-call filters. The numbers come from a file, one on each line: the test knows the names.
namespace adverse {
namespace {

bool read_numbers(const std::string& path, std::vector<unsigned>* out) {
  std::ifstream file(path);
  for (unsigned number = 0; file >> number;) out->push_back(number);
  return !out->empty();
}

sock_filter statement(unsigned code, unsigned k) { return {static_cast<__u16>(code), 0, 0, k}; }

// What a call in the list gets, and what all others get.
bool install(const std::vector<unsigned>& numbers, unsigned listed, unsigned others) {
  std::vector<sock_filter> program;
  program.push_back(statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned number : numbers) {
    program.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number});
    program.push_back(statement(BPF_RET | BPF_K, listed));
  }
  program.push_back(statement(BPF_RET | BPF_K, others));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Everything that is not in the list kills the program. For the calling thread and those that it starts.
bool kill_others(const std::string& path) {
  std::vector<unsigned> numbers;
  return read_numbers(path, &numbers) && install(numbers, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
}

// cuInit on a thread that has such a filter, and ends: the threads that cuInit starts have it too, the rest
// of the program has not.
bool start_filtered(const std::string& path) {
  bool done = false;
  std::thread([&] {
    done = kill_others(path);
    if (done) CHECK(cuInit(0));
  }).join();
  return done;
}

bool refuse(const std::string& path, unsigned error) {
  std::vector<unsigned> numbers;
  return read_numbers(path, &numbers) && install(numbers, SECCOMP_RET_ERRNO | error, SECCOMP_RET_ALLOW);
}

bool refuse_eperm(const std::string& path) { return refuse(path, EPERM); }
bool refuse_enosys(const std::string& path) { return refuse(path, ENOSYS); }

constexpr Action kActions[] = {
    {"kill_others", kill_others},
    {"start_filtered", start_filtered},
    {"refuse_eperm", refuse_eperm},
    {"refuse_enosys", refuse_enosys},
};

}  // namespace

std::span<const Action> filter_actions() { return kActions; }

}  // namespace adverse
