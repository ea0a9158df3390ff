// SPDX-License-Identifier: Apache-2.0
#include "common/knobs.h"

#include <cstdio>
#include <cstdlib>

namespace simgpu {

std::uint64_t knob(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  // Through the signed form, so that -1 means what it says.
  const std::uint64_t value =
      *text == '-' ? static_cast<std::uint64_t>(std::strtoll(text, &end, 0)) : std::strtoull(text, &end, 0);
  if (*end != '\0') {
    std::fprintf(stderr, "simgpu: %s=%s is not a number\n", name, text);
    std::abort();
  }
  return value;
}

std::string knob_text(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

namespace {

[[noreturn]] void bad_fault(const std::string& part) {
  std::fprintf(stderr, "simgpu: SIMGPU_FAULTS: '%s' is not function:nth:result\n", part.c_str());
  std::abort();
}

Fault parse_fault(const std::string& part) {
  const std::size_t first = part.find(':');
  const std::size_t second = first == std::string::npos ? first : part.find(':', first + 1);
  if (second == std::string::npos || first == 0) bad_fault(part);
  const std::string nth = part.substr(first + 1, second - first - 1);
  Fault fault{part.substr(0, first), 1, nth == "*", 0};
  char* end = nullptr;
  if (nth != "*") {
    fault.first = std::strtoull(nth.c_str(), &end, 10);
    if (*end == '+') {
      fault.onwards = true;
      ++end;
    }
    if (*end != '\0' || fault.first == 0) bad_fault(part);
  }
  fault.result = static_cast<int>(std::strtol(part.c_str() + second + 1, &end, 10));
  if (*end != '\0') bad_fault(part);
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find(',', begin);
    if (end == std::string::npos) end = text.size();
    faults.push_back(parse_fault(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return faults;
}

FaultPoint::FaultPoint(const char* function) {
  for (Fault& fault : parse_faults(knob_text("SIMGPU_FAULTS"))) {
    if (fault.function == function) faults_.push_back(std::move(fault));
  }
}

std::optional<int> FaultPoint::count_and_match() {
  const std::uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Fault& fault : faults_) {
    if (call == fault.first || (fault.onwards && call > fault.first)) return fault.result;
  }
  return std::nullopt;
}

}  // namespace simgpu
