// SPDX-License-Identifier: Apache-2.0
#include "inject/attach_access.h"

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>

using namespace pillion::inject;

namespace {

constexpr std::uint64_t kPtrace = std::uint64_t{1} << kCapSysPtrace;

struct Case {
  const char* what;
  AttachAnswer answer;
  std::uint32_t own_uid;
  std::uint64_t own_capabilities;
  std::uint32_t target_uid;
  std::uint64_t target_capabilities;
  int yama;
  bool other_user_namespace;
  const char* label;
  const char* reason;  // a part of it
  const char* hint;
};

ProcessStatus make_status(std::uint32_t uid, std::uint64_t capabilities) {
  ProcessStatus status;
  status.uids = {uid, uid, uid, uid};
  status.gids = status.uids;
  status.permitted = status.effective = capabilities;
  return status;
}

const Case kCases[] = {
    {"another user", {}, 1000, 0, 0, 0, -1, false, "", "runs as user 0", "CAP_SYS_PTRACE"},
    {"another user, and more rights", {}, 1000, 0, 0, 0xff, -1, false, "", "runs as user 0", "SYS_PTRACE"},
    {"more capabilities",
     {},
     0,
     0,
     0,
     0xa80425fb,
     -1,
     false,
     "",
     "capabilities that pillion has not (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID and",
     "SYS_PTRACE"},
    {"Yama 1", {}, 1000, 0, 1000, 0, 1, false, "", "ptrace_scope = 1", "ptrace_scope to 0"},
    {"Yama 2", {}, 1000, 0, 1000, 0, 2, false, "", "ptrace_scope = 2", "CAP_SYS_PTRACE"},
    {"Yama 3", {}, 0, ~0ull, 1000, 0, 3, false, "", "ptrace_scope = 3", "CUDA_INJECTION64_PATH"},
    {"user namespace", {}, 0, kPtrace, 0, 0, 0, true, "", "another user namespace", "that user namespace"},
    {"AppArmor",
     {},
     0,
     kPtrace,
     0,
     0,
     0,
     false,
     "docker-default (enforce)",
     "'docker-default (enforce)'",
     "profile"},
    {"unknown", {}, 0, kPtrace, 0, 0, 0, false, "", "though it has CAP_SYS_PTRACE", "kernel's log"},
    {"our own filter",
     {false, "pidfd_getfd"},
     0,
     kPtrace,
     0,
     0,
     0,
     false,
     "",
     "does not let it call pidfd_getfd",
     "seccomp profile"},
};

}  // namespace

TEST_CASE("each reason why an attach is not permitted is named, with what to do") {
  for (const Case& row : kCases) {
    INFO(row.what);
    AttachRights rights;
    rights.own = make_status(row.own_uid, row.own_capabilities);
    rights.yama_level = row.yama;
    rights.other_user_namespace = row.other_user_namespace;
    rights.security_label = row.label;
    const auto target = make_status(row.target_uid, row.target_capabilities);
    const auto refusal = explain_access("process 1 (x)", row.answer, target, rights);
    REQUIRE(refusal);
    CHECK(refusal->kind == RefusalReason::not_permitted);
    INFO(refusal->message());
    CHECK(refusal->reason.find(row.reason) != std::string::npos);
    CHECK(refusal->hint.find(row.hint) != std::string::npos);
    CHECK_FALSE(explain_access("process 1 (x)", {true, nullptr}, target, rights));
  }
}

TEST_CASE("the kernel is asked without the process noticing") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  const AttachAnswer answer = probe_attach(static_cast<std::uint32_t>(child));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(answer.granted);
  CHECK(answer.forbidden_call == nullptr);
  CHECK_FALSE(probe_attach(static_cast<std::uint32_t>(child)).granted);  // gone
}
