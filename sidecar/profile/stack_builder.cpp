// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_builder.h"

#include <cstdio>

#include "base/demangle.h"

namespace pillion::profile {
namespace {

std::string_view base_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kMemory = "memfd:";  // an injected shim, and the CUPTI that came with it
  return name.starts_with(kMemory) ? name.substr(kMemory.size()) : name;
}

// libcuda.so.1 and libcuda.so.580.159, but not libcudart: that is the application's side of the call.
bool belongs_to_capture(std::string_view name) {
  return name.starts_with("libpillion.so") || name.starts_with("libcupti.so") ||
         name.starts_with("libcuda.so");
}

std::string offset_name(std::string_view file, std::uint64_t address) {
  char hex[24];
  std::snprintf(hex, sizeof(hex), "+0x%llx", static_cast<unsigned long long>(address));
  return std::string(file) + hex;
}

}  // namespace

const char* ending_name(StackEnding ending) {
  switch (ending) {
    case StackEnding::rooted:
      return "rooted";
    case StackEnding::fiber:
      return "fiber";
    case StackEnding::no_cfi:
      return "no-cfi";
    case StackEnding::truncated_snapshot:
      return "truncated-snapshot";
    case StackEnding::bad_cfa:
      return "bad-cfa";
    case StackEnding::loop:
      return "loop";
    case StackEnding::no_mapping:
      return "no-mapping";
    case StackEnding::faulted:
      return "faulted";
  }
  return "unknown";
}

StackBuilder::StackBuilder(Profile& profile, TextTable& texts, FrameResolver& resolver,
                           std::string_view main_program)
    : profile_(profile), texts_(texts), resolver_(resolver), main_program_(texts.id(main_program)) {
  profile_.mappings.push_back({0, 0, 0, main_program_, 0});
  static_cast<void>(list({}));
}

std::uint32_t StackBuilder::function(std::string_view name, std::string_view system_name,
                                     std::string_view file) {
  const TextId name_id = texts_.id(name);
  const TextId system_id = system_name.empty() ? name_id : texts_.id(system_name);
  const TextId file_id = texts_.id(file);
  const auto [found, made] = functions_.try_emplace({name_id, system_id, file_id}, 0);
  if (made) {
    profile_.functions.push_back({name_id, system_id, file_id});
    found->second = static_cast<std::uint32_t>(profile_.functions.size());
  }
  return found->second;
}

std::uint32_t StackBuilder::add_location(Location location) {
  profile_.locations.push_back(std::move(location));
  return static_cast<std::uint32_t>(profile_.locations.size());
}

std::uint32_t StackBuilder::pseudo(std::string_view name) {
  const std::uint32_t of = function(name, {}, {});
  const auto [found, made] = pseudo_.try_emplace(of, 0);
  if (made) found->second = add_location({0, 0, {{of, 0}}, false});
  return found->second;
}

std::uint32_t StackBuilder::kernel(TargetId target, std::string_view mangled) {
  const std::uint32_t of = function(demangle(mangled), mangled, {});
  std::uint32_t in = 0;
  if (const auto module = resolver_.kernel_module(target, mangled)) in = mapping(*module);
  const auto [found, made] = kernels_.try_emplace({of, in}, 0);
  if (made) found->second = add_location({in, 0, {{of, 0}}, false});
  return found->second;
}

std::uint32_t StackBuilder::mapping(const Module& module) {
  const TextId file_id = texts_.id(module.path);
  const Mapping made{module.start, module.limit, module.offset, file_id, texts_.id(module.build_id)};
  if (file_id == main_program_ && !main_program_seen_) {
    main_program_seen_ = true;
    profile_.mappings[0] = made;
    mappings_[{file_id, made.build_id}] = 1;
  }
  const auto [found, is_new] = mappings_.try_emplace({file_id, made.build_id}, 0);
  if (is_new) {
    profile_.mappings.push_back(made);
    found->second = static_cast<std::uint32_t>(profile_.mappings.size());
  }
  return found->second;
}

const StackBuilder::FileInfo& StackBuilder::file(TargetId target, std::uint32_t number) {
  const auto [found, made] = files_.try_emplace({target, number});
  FileInfo& info = found->second;
  if (!made || number == 0) return info;
  const auto module = resolver_.module(target, number);
  if (!module) return info;
  info.known = true;
  info.name = base_name(module->path);
  info.capture = belongs_to_capture(info.name);
  info.mapping = mapping(*module);
  // Where several processes map a file at different places, the profile has the first one's addresses.
  const Mapping& used = profile_.mappings[info.mapping - 1];
  info.bias = module->bias + (used.start - used.offset) - (module->start - module->offset);
  return info;
}

std::uint32_t StackBuilder::frame(const TargetInput& of, const UnwoundFrame& at) {
  if (at.kind == FrameKind::python_unplaced) return pseudo("[python frames without their place]");
  if (at.kind == FrameKind::python_cut) return pseudo("[python frames missing]");
  // A file's frames are the same in every target; code without a file is each target's own, and Python's each
  // session's.
  const bool python = at.kind == FrameKind::python;
  const std::uint32_t whose = python ? of.session : at.file != 0 ? 0 : of.id;
  const FrameKey key{at.address, at.file, whose, at.is_return, at.kind};
  if (const std::uint32_t* found = frames_.find(key)) return *found;
  const std::uint32_t made = python ? python_frame(of.session, at) : native_frame(of.id, at);
  *frames_.insert(key).first = made;
  return made;
}

// Lines, not instructions, are told apart: an instruction has no address that means anything to a reader.
std::uint32_t StackBuilder::python_frame(SessionId session, const UnwoundFrame& at) {
  const auto found_source = resolver_.resolve_python(session, at);
  if (!found_source) {
    ++python_unnamed_;
    return pseudo("[python code " + std::to_string(at.file) + "]");
  }
  const SourceFrame& source = *found_source;
  const std::uint32_t of = function(source.function, source.system_name, source.file);
  const auto [found, made] = python_lines_.try_emplace({of, source.line}, 0);
  if (made) found->second = add_location({0, 0, {{of, source.line}}, true});
  return found->second;
}

std::uint32_t StackBuilder::native_frame(TargetId target, const UnwoundFrame& at) {
  const FileInfo& info = file(target, at.file);
  Location location{info.mapping, at.address + info.bias, {}, false};
  for (const SourceFrame& source : resolver_.resolve(target, at)) {
    location.lines.push_back({function(source.function, source.system_name, source.file), source.line});
  }
  if (location.lines.empty()) {
    const std::string where = at.file == 0 ? "[anonymous code]" : info.known ? info.name : "[unknown file]";
    location.lines.push_back({function(offset_name(where, at.address), {}, {}), 0});
  }
  return add_location(std::move(location));
}

// The snapshot is taken inside the shim's handler, which CUPTI calls, which libcuda calls: the application's
// own frames begin after libcuda's. A frame without a file among them (a trampoline) does not end the search.
std::size_t StackBuilder::first_application_frame(TargetId target, const std::vector<UnwoundFrame>& frames) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].kind != FrameKind::native) break;
    if (frames[i].file == 0) continue;
    if (!file(target, frames[i].file).capture) break;
    first = i + 1;
  }
  return first;
}

std::uint32_t StackBuilder::list(std::vector<std::uint32_t> frames) {
  const auto [found, made] =
      list_ids_.try_emplace(std::move(frames), static_cast<std::uint32_t>(lists_.size()));
  if (made) lists_.push_back(&found->first);
  return found->second;
}

std::uint32_t StackBuilder::stack(const TargetInput& of, StackId id) {
  const auto [found, made] = stacks_.try_emplace({of.session, id}, 0);
  if (!made) return found->second;
  const UnwoundStack unwound = of.stacks->stack(id);
  std::vector<std::uint32_t> frames;
  for (std::size_t i = first_application_frame(of.id, unwound.frames); i < unwound.frames.size(); ++i) {
    frames.push_back(frame(of, unwound.frames[i]));
  }
  if (unwound.ending != StackEnding::rooted) {
    frames.push_back(pseudo(std::string("[stack: ") + ending_name(unwound.ending) + "]"));
  }
  found->second = list(std::move(frames));
  return found->second;
}

std::uint32_t StackBuilder::pseudo_stack(std::string_view name) { return list({pseudo(name)}); }

std::uint32_t StackBuilder::of_launch(const TargetInput& of, const JoinedSample& sample) {
  switch (sample.attribution) {
    case Attribution::exact:
    case Attribution::context:
      if (of.stacks == nullptr || sample.stack == 0) break;
      return stack(of, sample.stack);
    case Attribution::unsampled:
      break;
    case Attribution::before_session:
      return pseudo_stack("[launched before the session]");
    case Attribution::launch_lost:
      return pseudo_stack("[launch record lost]");
    case Attribution::other:
      return pseudo_stack("[other]");
  }
  return pseudo_stack("[unsampled]");
}

}  // namespace pillion::profile
