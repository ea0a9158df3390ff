// SPDX-License-Identifier: Apache-2.0
#include "pipeline/code_names.h"

#include "base/elf_file.h"
#include "symbolize/python_lines.h"

namespace pillion::pipeline {

std::optional<profile::SourceFrame> CodeNames::resolve_python(SessionId session, const UnwoundFrame& frame) {
  const auto codes = python_.find(session);
  const auto code = codes == python_.end() ? nullptr : codes->second->find(frame.file);
  if (code == nullptr) return std::nullopt;
  const symbolize::PythonLineTable lines{code->version, code->first_line, code->line_table};
  // Without its table all that is known is where the function begins.
  const std::uint32_t line =
      code->lines_cut ? code->first_line : symbolize::python_line(lines, frame.python_offset());
  return profile::SourceFrame{
      code->qualname.empty() ? "[python function without a name]" : code->qualname, {}, code->filename, line};
}

std::vector<profile::SourceFrame> CodeNames::resolve(TargetId, const UnwoundFrame& frame) {
  std::vector<profile::SourceFrame> frames;
  if (frame.file == 0) return frames;
  for (const auto& resolved : symbolizer_.resolve(frame.file, frame.address, frame.is_return)) {
    frames.push_back({resolved.function, resolved.system_name, resolved.source, resolved.line});
  }
  return frames;
}

std::optional<profile::Module> CodeNames::module(TargetId target, std::uint32_t file) {
  const auto info = files_.find(file);
  if (!info) return std::nullopt;
  profile::Module module;
  module.path = info->path;
  module.build_id = info->build_id;
  auto& maps = maps_[target];
  if (!maps) maps = code_.maps(target);
  for (const auto& mapping : maps->mappings()) {
    if (mapping.path != info->path) continue;
    const auto address = code_address(info->segments, mapping.offset);
    if (!address) continue;
    module.start = mapping.start;
    module.limit = mapping.end;
    module.offset = mapping.offset;
    module.bias = mapping.start - *address;
    break;
  }
  return module;
}

}  // namespace pillion::pipeline
