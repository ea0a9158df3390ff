// SPDX-License-Identifier: Apache-2.0
#include "python_stack.h"

#include "python_codes.h"
#include "python_walk.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kThoroughFrames = 4;

constinit thread_local PageMemory t_memory [[gnu::tls_model("initial-exec")]] = {};

template <typename Table>
PILLION_RAW void collect(Table table, const CodeLook& look, PythonCodes& codes, PythonStack* out) {
  using Chain = FrameChain<Table, PythonCodes>;
  Chain chain(table, look.interpreter, look.pages, codes, t_memory);
  const auto start = chain.begin();
  if (start == Chain::Start::none) return;
  if (start != Chain::Start::ready) out->flags = PILLION_SNAPSHOT_PYTHON_PARTIAL;
  if (start == Chain::Start::broken) return;
  pillion_python_frame* open = nullptr;  // the last frame since a boundary
  for (;;) {
    FrameSight<PythonCodes> sight;
    const auto step = chain.next(&sight);
    if (step == Chain::Step::boundary) {
      if (open != nullptr) open->entry = sight.entry;
      open = nullptr;
      continue;
    }
    if (step == Chain::Step::broken) out->flags |= PILLION_SNAPSHOT_PYTHON_PARTIAL;
    if (step != Chain::Step::frame) return;
    if (out->count == PILLION_PYTHON_FRAMES_MAX) {
      out->flags |= PILLION_SNAPSHOT_PYTHON_CUT;
      return;
    }
    open = &out->frames[out->count];
    *open = {codes.id_of(*table, look, sight.place, sight.code, out->count < kThoroughFrames), sight.offset,
             sight.entry};
    ++out->count;
  }
}

template <typename Table>
PILLION_RAW std::uint64_t innermost(Table table, const Interpreter& interpreter, ReadablePages& pages,
                                    PythonCodes& codes) {
  using Chain = FrameChain<Table, PythonCodes>;
  Chain chain(table, interpreter, pages, codes, t_memory);
  const auto start = chain.begin();
  if (start != Chain::Start::ready && start != Chain::Start::doubt) return 0;
  FrameSight<PythonCodes> sight;
  auto step = chain.next(&sight);
  while (step == Chain::Step::boundary) step = chain.next(&sight);
  if (step != Chain::Step::frame) return 0;
  // Tells the code apart from one that was at its address before: nearly always, which is enough for a key.
  const std::uint16_t at =
      (*table).code_version != PythonOffsets::kAbsent ? (*table).code_version : (*table).code_first_line;
  return mix(sight.code + static_cast<std::uint32_t>(sight.offset), load<std::uint32_t>(sight.code + at));
}

}  // namespace

void collect_python(const CodeLook& look, PythonCodes& codes, PythonStack* out) {
  out->count = 0;
  out->flags = 0;
  with_table(look.interpreter, [&](auto table) { collect(table, look, codes, out); });
  if (out->count != 0 || out->flags != 0) out->flags |= PILLION_SNAPSHOT_PYTHON;
}

std::uint64_t innermost_python(const Interpreter& interpreter, ReadablePages& pages, PythonCodes& codes) {
  return with_table(interpreter, [&](auto table) { return innermost(table, interpreter, pages, codes); });
}

}  // namespace pillion::shim
