// SPDX-License-Identifier: Apache-2.0
#include "python_frames.h"

#include <atomic>

#include "bounded_text.h"
#include "python_codes.h"
#include "python_find.h"
#include "python_stack.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kEndWaitMs = 2000;

constinit ReadablePages g_pages{};
constinit PythonCodes g_codes{};

// Filled once in the life of the process.
constinit Interpreter g_interpreter{};
// Null while no frames are wanted.
std::atomic<const Interpreter*> g_in_force{nullptr};
// Launching threads inside g_codes.
std::atomic<std::uint32_t> g_walking{0};

// Capture thread.
bool g_wanted;
bool g_found;
PythonFinding g_finding;

// What the control thread may read: two places in turn, by the number of changes.
pillion_python g_told[2];
std::atomic<std::uint32_t> g_changes{0};

void tell(const PythonFinding& finding) {
  const std::uint32_t changes = g_changes.load(std::memory_order_relaxed);
  const pillion_python& last = g_told[changes & 1];
  if (changes != 0 && last.state == finding.state && last.version == finding.version) return;
  pillion_python& next = g_told[(changes + 1) & 1];
  next.version = finding.version;
  next.state = finding.state;
  BoundedText(next.text).add(finding.text);
  // Pairs with the acquire load of python_state().
  g_changes.store(changes + 1, std::memory_order_release);
}

bool walkers_are_out(std::uint32_t wait_ms) {
  for (std::uint32_t waited = 0; g_walking.load(std::memory_order_seq_cst) != 0; ++waited) {
    if (waited >= wait_ms) return false;
    sleep_ns(1'000'000);
  }
  return true;
}

void look() {
  if (!g_found) g_found = find_python(&g_interpreter, &g_finding);
  PythonFinding finding = g_finding;
  if (g_found) {
    g_pages.forget();
    // A thread that was stopped in a walk of the last session still uses what begin() would clear.
    if (!walkers_are_out(0) || !g_codes.begin()) {
      finding.state = PILLION_PYTHON_INCOMPLETE;
      BoundedText(finding.text).add("no memory, or a thread of the last session is still in a walk");
    } else {
      g_in_force.store(&g_interpreter, std::memory_order_seq_cst);
    }
  }
  tell(finding);
}

}  // namespace

void python_begin(bool wanted) {
  g_wanted = wanted;
  if (!wanted) {
    tell({PILLION_PYTHON_NOT_ASKED, g_finding.version, ""});
  } else {
    look();
  }
}

bool python_in_force() { return g_in_force.load(std::memory_order_relaxed) != nullptr; }

void python_look_again() {
  if (!g_wanted) return;
  if (g_in_force.load(std::memory_order_relaxed) != nullptr) {
    g_pages.forget();  // some may have been unmapped
  } else {
    look();
  }
}

void python_retry(CaptureSession& session, std::uint32_t tid) {
  if (g_in_force.load(std::memory_order_relaxed) == nullptr) return;
  g_codes.retry_unsent(session, session.number.load(std::memory_order_relaxed), tid);
}

void python_end() {
  g_wanted = false;
  // Sequentially consistent with walk_python(): either it sees no interpreter, or this sees it walking.
  if (g_in_force.exchange(nullptr, std::memory_order_seq_cst) == nullptr) return;
  if (walkers_are_out(kEndWaitMs)) g_codes.end();
}

std::uint64_t python_place() {
  const Interpreter* interpreter = g_in_force.load(std::memory_order_acquire);
  return interpreter != nullptr ? innermost_python(*interpreter, g_pages, g_codes) : 0;
}

void walk_python(CaptureSession& session, std::uint32_t number, std::uint32_t tid, PythonStack* out) {
  out->count = 0;
  out->flags = 0;
  g_walking.fetch_add(1, std::memory_order_seq_cst);
  const Interpreter* interpreter = g_in_force.load(std::memory_order_seq_cst);
  if (interpreter != nullptr) {
    collect_python({*interpreter, g_pages, session, number, tid}, g_codes, out);
  }
  g_walking.fetch_sub(1, std::memory_order_release);
}

std::uint32_t python_state(pillion_python* out) {
  for (;;) {
    const std::uint32_t changes = g_changes.load(std::memory_order_acquire);
    const pillion_python& told = g_told[changes & 1];
    out->version = told.version;
    out->state = told.state;
    BoundedText(out->text).add(told.text);
    // A second change meanwhile would be writing here; they are a tick apart.
    if (g_changes.load(std::memory_order_acquire) - changes < 2) return changes;
  }
}

}  // namespace pillion::shim
