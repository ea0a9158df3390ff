// SPDX-License-Identifier: Apache-2.0
#include "collect/record_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "abi/pillion_abi.h"

namespace pillion::collect {
namespace {

enum class Verdict : std::uint8_t { delivered, unknown, malformed };

// A record larger than the struct is of a newer minor: what it appends is not read.
template <typename Wire>
std::optional<Wire> read_as(std::span<const std::byte> record) {
  if (record.size() < sizeof(Wire)) return std::nullopt;
  Wire wire;
  std::memcpy(&wire, record.data(), sizeof(wire));
  return wire;
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return std::string(field, ::strnlen(field, N));
}

Verdict deliver_launch(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_launch>(record);
  if (!wire) return Verdict::malformed;
  if (wire->kind < PILLION_LAUNCH_KERNEL || wire->kind > PILLION_LAUNCH_HOST) return Verdict::unknown;
  RawLaunch launch;
  launch.correlation = wire->correlation;
  launch.tid = wire->tid;
  launch.time_ns = wire->time_ns;
  launch.context_key = wire->context_key;
  launch.function = wire->function;
  launch.cbid = wire->cbid;
  launch.kind = static_cast<LaunchKind>(wire->kind);
  launch.has_snapshot = (wire->flags & PILLION_LAUNCH_SNAPSHOT) != 0;
  launch.returns = (wire->flags & PILLION_LAUNCH_RETURNS) != 0;
  sink.on_launch(launch);
  return Verdict::delivered;
}

Verdict deliver_launch_failed(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_launch_failed>(record);
  if (!wire) return Verdict::malformed;
  sink.on_launch_failed({wire->correlation, wire->result});
  return Verdict::delivered;
}

Verdict deliver_returned(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_returned>(record);
  if (!wire) return Verdict::malformed;
  sink.on_returned({wire->correlation, (wire->flags & PILLION_RETURNED_SYNC) != 0, wire->time_ns});
  return Verdict::delivered;
}

Verdict deliver_sync(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_sync>(record);
  if (!wire) return Verdict::malformed;
  sink.on_sync({wire->correlation, wire->tid, wire->time_ns, wire->context_key, wire->cbid, wire->context,
                (wire->flags & PILLION_LAUNCH_SNAPSHOT) != 0});
  return Verdict::delivered;
}

// What the three kinds of execution have in common.
template <typename Wire>
RawExecution execution_of(const Wire& wire, ExecutionKind kind) {
  RawExecution execution;
  execution.kind = kind;
  execution.correlation = wire.correlation;
  execution.device = wire.device;
  execution.context = wire.context;
  execution.stream = wire.stream;
  execution.start_ns = wire.start_ns;
  execution.end_ns = wire.end_ns;
  execution.graph = wire.graph;
  execution.graph_node = wire.graph_node;
  return execution;
}

Verdict deliver_kernel(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_kernel>(record);
  if (!wire) return Verdict::malformed;
  RawExecution execution = execution_of(*wire, ExecutionKind::kernel);
  execution.name = wire->name;
  std::copy_n(wire->grid, 3, execution.grid.begin());
  std::copy_n(wire->block, 3, execution.block.begin());
  execution.static_shared_bytes = wire->static_shared_bytes;
  execution.dynamic_shared_bytes = wire->dynamic_shared_bytes;
  execution.registers = wire->registers;
  sink.on_execution(execution);
  return Verdict::delivered;
}

Verdict deliver_copy(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_copy>(record);
  if (!wire) return Verdict::malformed;
  RawExecution execution = execution_of(*wire, ExecutionKind::copy);
  execution.bytes = wire->bytes;
  execution.copy_kind = wire->copy_kind;
  execution.source_device = wire->source_device;
  execution.destination_device = wire->destination_device;
  sink.on_execution(execution);
  return Verdict::delivered;
}

Verdict deliver_set(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_set>(record);
  if (!wire) return Verdict::malformed;
  RawExecution execution = execution_of(*wire, ExecutionKind::set);
  execution.bytes = wire->bytes;
  sink.on_execution(execution);
  return Verdict::delivered;
}

Verdict deliver_overhead(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_overhead>(record);
  if (!wire) return Verdict::malformed;
  sink.on_overhead({wire->start_ns, wire->end_ns, wire->kind});
  return Verdict::delivered;
}

Verdict deliver_name(std::span<const std::byte> record, RecordSink& sink, ParseCounts& counts) {
  const auto wire = read_as<pillion_name>(record);
  if (!wire || wire->length > record.size() - sizeof(pillion_name)) return Verdict::malformed;
  const std::uint32_t length = std::min(wire->length, kNameBytesMax);
  if (length < wire->length) ++counts.cut_names;
  const auto* text = reinterpret_cast<const char*>(record.data() + sizeof(pillion_name));
  sink.on_name({wire->id, std::string(text, length)});
  return Verdict::delivered;
}

Verdict deliver_thread(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_thread>(record);
  if (!wire) return Verdict::malformed;
  sink.on_thread({wire->tid, wire->stack_low, wire->stack_high, text_of(wire->comm)});
  return Verdict::delivered;
}

Verdict deliver_device(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_device>(record);
  if (!wire) return Verdict::malformed;
  RawDevice device;
  device.device = wire->device;
  device.compute_major = wire->compute_major;
  device.compute_minor = wire->compute_minor;
  std::copy_n(wire->uuid, device.uuid.size(), device.uuid.begin());
  device.multiprocessors = wire->multiprocessors;
  device.mig = wire->mig != 0;
  device.name = text_of(wire->name);
  sink.on_device(std::move(device));
  return Verdict::delivered;
}

Verdict deliver_context(std::span<const std::byte> record, RecordSink& sink) {
  const auto wire = read_as<pillion_context>(record);
  if (!wire) return Verdict::malformed;
  sink.on_context({wire->context, wire->device});
  return Verdict::delivered;
}

// The three texts stand one behind the other; 64-bit sums of 32-bit lengths cannot wrap.
Verdict deliver_python_code(std::span<const std::byte> record, RecordSink& sink, ParseCounts& counts) {
  const auto wire = read_as<pillion_python_code>(record);
  if (!wire) return Verdict::malformed;
  auto rest = record.subspan(sizeof(pillion_python_code));
  if (std::uint64_t{wire->qualname_bytes} + wire->filename_bytes + wire->line_table_bytes > rest.size())
    return Verdict::malformed;
  const auto take = [&rest](std::uint32_t bytes) {
    const auto taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
  };
  RawPythonCode code;
  const auto take_text = [&](std::uint32_t bytes) {
    const auto text = take(bytes);
    if (bytes > kNameBytesMax) {
      ++counts.cut_names;
      code.name_cut = true;
    }
    return std::string(reinterpret_cast<const char*>(text.data()), std::min(bytes, kNameBytesMax));
  };
  code.id = wire->id;
  code.version = wire->version;
  code.first_line = wire->first_line;
  code.name_cut = (wire->flags & PILLION_PYTHON_CODE_NAME_CUT) != 0;
  code.name_lost = (wire->flags & PILLION_PYTHON_CODE_NAME_LOST) != 0;
  code.lines_cut = (wire->flags & PILLION_PYTHON_CODE_LINES_CUT) != 0;
  code.qualname = take_text(wire->qualname_bytes);
  code.filename = take_text(wire->filename_bytes);
  if (wire->line_table_bytes > kLineTableBytesMax) {  // half a table would give wrong lines
    ++counts.cut_python;
    code.lines_cut = true;
  } else {
    const auto table = take(wire->line_table_bytes);
    code.line_table.assign(table.begin(), table.end());
  }
  sink.on_python_code(std::move(code));
  return Verdict::delivered;
}

// What follows the stack, padded to 8. False: it does not fit into the record.
bool read_python_frames(std::span<const std::byte> record, const pillion_snapshot& wire,
                        RawSnapshot& snapshot, ParseCounts& counts) {
  if ((wire.flags & PILLION_SNAPSHOT_PYTHON) == 0) return true;
  const std::uint64_t from = sizeof(pillion_snapshot) + (std::uint64_t{wire.stack_bytes} + 7) / 8 * 8;
  const std::uint64_t bytes = std::uint64_t{wire.python_frames} * sizeof(pillion_python_frame);
  if (from > record.size() || bytes > record.size() - from) return false;
  const std::uint32_t count = std::min(wire.python_frames, PILLION_PYTHON_FRAMES_MAX);
  if (count < wire.python_frames) ++counts.cut_python;
  snapshot.python_cut = (wire.flags & PILLION_SNAPSHOT_PYTHON_CUT) != 0 || count < wire.python_frames;
  snapshot.python_partial = (wire.flags & PILLION_SNAPSHOT_PYTHON_PARTIAL) != 0;
  snapshot.python.reserve(count);
  auto rest = record.subspan(from);
  for (std::uint32_t i = 0; i < count; ++i, rest = rest.subspan(sizeof(pillion_python_frame))) {
    const auto frame = read_as<pillion_python_frame>(rest);
    snapshot.python.push_back({frame->code, frame->offset, frame->entry});
  }
  return true;
}

Verdict deliver_snapshot(std::span<const std::byte> record, RecordSink& sink, ParseCounts& counts) {
  const auto wire = read_as<pillion_snapshot>(record);
  if (!wire || wire->stack_bytes > record.size() - sizeof(pillion_snapshot)) return Verdict::malformed;
  const std::uint32_t bytes = std::min(wire->stack_bytes, kStackBytesMax);
  if (bytes < wire->stack_bytes) ++counts.cut_snapshots;
  RawSnapshot snapshot;
  if (!read_python_frames(record, *wire, snapshot, counts)) return Verdict::malformed;
  snapshot.correlation = wire->correlation;
  snapshot.tid = wire->tid;
  snapshot.time_ns = wire->time_ns;
  snapshot.context_key = wire->context_key;
  snapshot.maps_generation = wire->maps_generation;
  snapshot.truncated = (wire->flags & PILLION_SNAPSHOT_TRUNCATED) != 0 || bytes < wire->stack_bytes;
  snapshot.foreign = (wire->flags & PILLION_SNAPSHOT_FOREIGN) != 0;
  snapshot.faulted = (wire->flags & PILLION_SNAPSHOT_FAULTED) != 0;
  std::copy_n(wire->registers, snapshot.registers.size(), snapshot.registers.begin());
  snapshot.stack_start = wire->stack_start;
  const std::byte* stack = record.data() + sizeof(pillion_snapshot);
  snapshot.stack.assign(stack, stack + bytes);
  sink.on_snapshot(std::move(snapshot));
  return Verdict::delivered;
}

Verdict deliver(std::uint16_t type, std::span<const std::byte> record, RecordSink& sink,
                ParseCounts& counts) {
  switch (type) {
    case PILLION_RECORD_LAUNCH:
      return deliver_launch(record, sink);
    case PILLION_RECORD_LAUNCH_FAILED:
      return deliver_launch_failed(record, sink);
    case PILLION_RECORD_RETURNED:
      return deliver_returned(record, sink);
    case PILLION_RECORD_SYNC:
      return deliver_sync(record, sink);
    case PILLION_RECORD_KERNEL:
      return deliver_kernel(record, sink);
    case PILLION_RECORD_COPY:
      return deliver_copy(record, sink);
    case PILLION_RECORD_SET:
      return deliver_set(record, sink);
    case PILLION_RECORD_OVERHEAD:
      return deliver_overhead(record, sink);
    case PILLION_RECORD_NAME:
      return deliver_name(record, sink, counts);
    case PILLION_RECORD_THREAD:
      return deliver_thread(record, sink);
    case PILLION_RECORD_DEVICE:
      return deliver_device(record, sink);
    case PILLION_RECORD_CONTEXT:
      return deliver_context(record, sink);
    case PILLION_RECORD_PYTHON_CODE:
      return deliver_python_code(record, sink, counts);
    case PILLION_RECORD_SNAPSHOT:
      return deliver_snapshot(record, sink, counts);
    default:
      return Verdict::unknown;
  }
}

}  // namespace

void parse_records(std::span<const std::byte> batch, RecordSink& sink, ParseCounts& counts,
                   SequenceCheck& sequence) {
  while (!batch.empty()) {
    const auto header = read_as<pillion_record_header>(batch);
    const bool possible = header && header->size >= sizeof(pillion_record_header) && header->size % 8 == 0 &&
                          header->size <= batch.size();
    const Verdict verdict =
        possible ? deliver(header->type, batch.first(header->size), sink, counts) : Verdict::malformed;
    if (verdict != Verdict::malformed) sequence.on_record(header->sequence);
    switch (verdict) {
      case Verdict::delivered:
        ++counts.records;
        break;
      case Verdict::unknown:
        ++counts.unknown_records;
        break;
      case Verdict::malformed:
        ++counts.malformed;
        counts.malformed_bytes += batch.size();
        return;
    }
    batch = batch.subspan(header->size);
  }
}

}  // namespace pillion::collect
