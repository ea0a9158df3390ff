// SPDX-License-Identifier: Apache-2.0
#include "export/pprof.h"

#include <zlib.h>

#include <climits>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "export/quality_text.h"

namespace pillion::exporting {
namespace {

using protozero::pbf_writer;

// Field numbers of profile.proto.
namespace field {
enum Profile : protozero::pbf_tag_type {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  time_nanos = 9,
  duration_nanos = 10,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14
};
enum ValueType : protozero::pbf_tag_type { type = 1, unit = 2 };
enum Sample : protozero::pbf_tag_type { location_id = 1, value = 2, label = 3 };
enum Label : protozero::pbf_tag_type { key = 1, str = 2, num = 3, num_unit = 4 };
enum Mapping : protozero::pbf_tag_type {
  mapping_id = 1,
  memory_start = 2,
  memory_limit = 3,
  file_offset = 4,
  filename = 5,
  build_id = 6,
  has_functions = 7,
  has_filenames = 8,
  has_line_numbers = 9,
  has_inline_frames = 10
};
enum Location : protozero::pbf_tag_type { own_location_id = 1, of_mapping = 2, address = 3, line = 4 };
enum Line : protozero::pbf_tag_type { function_id = 1, line_number = 2 };
enum Function : protozero::pbf_tag_type { own_function_id = 1, name = 2, system_name = 3, source_file = 4 };
}  // namespace field

// The profile's texts, and behind them what only this format needs.
class Strings {
 public:
  explicit Strings(const std::vector<std::string>& texts) : texts_(texts) {}
  [[nodiscard]] std::int64_t add(std::string_view text) {
    const auto [found, made] = ids_.try_emplace(std::string(text), texts_.size() + more_.size());
    if (made) more_.emplace_back(text);
    return static_cast<std::int64_t>(found->second);
  }
  void write(pbf_writer& out) const {
    for (const std::string& text : texts_) out.add_string(field::string_table, text);
    for (const std::string& text : more_) out.add_string(field::string_table, text);
  }

 private:
  const std::vector<std::string>& texts_;
  std::vector<std::string> more_;
  std::unordered_map<std::string, std::size_t> ids_;
};

void write_type(const profile::ValueType& value, std::uint32_t where, Strings& strings, pbf_writer& out) {
  pbf_writer type(out, where);
  type.add_int64(field::type, strings.add(value.type));
  type.add_int64(field::unit, strings.add(value.unit));
}

// Every execution counts: a period of 1 of what the first type counts. Some readers refuse a profile without.
void write_types(const profile::Profile& profile, Strings& strings, pbf_writer& out) {
  for (const profile::ValueType& value : profile.value_types)
    write_type(value, field::sample_type, strings, out);
  write_type(profile.value_types.front(), field::period_type, strings, out);
  out.add_int64(field::period, 1);
  out.add_int64(field::default_sample_type, strings.add(profile.value_types.front().type));
  out.add_int64(field::time_nanos, profile.start_wall_ns);
  out.add_int64(field::duration_nanos, static_cast<std::int64_t>(profile.t1_ns - profile.t0_ns));
  for (const std::string& line : quality_lines(profile)) out.add_int64(field::comment, strings.add(line));
}

void write_samples(const profile::Profile& profile, pbf_writer& out) {
  for (const profile::Sample& sample : profile.samples) {
    pbf_writer one(out, field::sample);
    one.add_packed_uint64(field::location_id, sample.locations.begin(), sample.locations.end());
    one.add_packed_int64(field::value, sample.values.begin(),
                         sample.values.begin() + static_cast<std::ptrdiff_t>(profile.value_types.size()));
    for (const profile::Label& label : sample.labels) {
      pbf_writer pair(one, field::label);
      pair.add_int64(field::key, label.key);
      if (label.unit == 0) {
        pair.add_int64(field::str, label.text);
      } else {
        pair.add_int64(field::num, label.number);
        pair.add_int64(field::num_unit, label.unit);
      }
    }
  }
}

// Without has_functions pprof goes and looks for the files on the reader's machine, and the later has_*
// decide whether it would want to symbolize again.
void write_mappings(const profile::Profile& profile, pbf_writer& out) {
  std::uint64_t id = 0;
  for (const profile::Mapping& mapping : profile.mappings) {
    pbf_writer one(out, field::mapping);
    one.add_uint64(field::mapping_id, ++id);
    one.add_uint64(field::memory_start, mapping.start);
    one.add_uint64(field::memory_limit, mapping.limit);
    one.add_uint64(field::file_offset, mapping.offset);
    one.add_int64(field::filename, mapping.file);
    one.add_int64(field::build_id, mapping.build_id);
    one.add_bool(field::has_functions, true);
    one.add_bool(field::has_filenames, true);
    one.add_bool(field::has_line_numbers, true);
    one.add_bool(field::has_inline_frames, true);
  }
}

void write_code(const profile::Profile& profile, pbf_writer& out) {
  std::uint64_t id = 0;
  for (const profile::Location& location : profile.locations) {
    pbf_writer one(out, field::location);
    one.add_uint64(field::own_location_id, ++id);
    if (location.mapping != 0) one.add_uint64(field::of_mapping, location.mapping);
    if (location.address != 0) one.add_uint64(field::address, location.address);
    for (const profile::Line& line : location.lines) {
      pbf_writer pair(one, field::line);
      pair.add_uint64(field::function_id, line.function);
      if (line.line != 0) pair.add_int64(field::line_number, line.line);
    }
  }
  id = 0;
  for (const profile::Function& function : profile.functions) {
    pbf_writer one(out, field::function);
    one.add_uint64(field::own_function_id, ++id);
    one.add_int64(field::name, function.name);
    // Where both are the same, pprof demangles the name once more, and of Python's <module> or <lambda>
    // nothing is left.
    if (function.system_name != function.name) one.add_int64(field::system_name, function.system_name);
    if (function.file != 0) one.add_int64(field::source_file, function.file);
  }
}

Result<std::string> gzip(std::string_view plain, int level) {
  constexpr int kGzipWindow = 15 + 16;  // zlib.h, deflateInit2: 16 more asks for the gzip wrapper
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    return fail("gzip", "profile", "deflateInit2 failed: out of memory or no such level");
  }
  std::string out;
  // next_in is not const in zlib's interface, but it only reads.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  std::size_t left = plain.size();
  int state = Z_OK;
  while (state == Z_OK) {
    const auto piece = static_cast<uInt>(std::min<std::size_t>(left, UINT_MAX / 2));
    stream.avail_in = piece;
    left -= piece;
    do {
      const std::size_t used = out.size();
      out.resize(used + (1u << 18));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
      stream.avail_out = 1u << 18;
      state = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
      out.resize(out.size() - stream.avail_out);
    } while (state == Z_OK && (stream.avail_out == 0 || stream.avail_in != 0));
  }
  deflateEnd(&stream);
  if (state != Z_STREAM_END)
    return fail("gzip", "profile", "deflate ended in state " + std::to_string(state));
  return out;
}

}  // namespace

std::string to_pprof_message(const profile::Profile& profile) {
  std::string message;
  pbf_writer out(message);
  Strings strings(profile.texts);
  write_types(profile, strings, out);
  write_samples(profile, out);
  write_mappings(profile, out);
  write_code(profile, out);
  strings.write(out);
  return message;
}

Result<std::string> to_pprof(const profile::Profile& profile, int gzip_level) {
  return gzip(to_pprof_message(profile), gzip_level);
}

}  // namespace pillion::exporting
