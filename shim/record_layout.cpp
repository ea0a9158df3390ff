// SPDX-License-Identifier: Apache-2.0
#include "record_layout.h"

#include <cstring>

#include "cupti_types.h"

namespace pillion::shim {
namespace {

struct VersionedLayout {
  std::uint32_t first_api_version;
  RecordLayout layout;
};

// Newest first. Sizes of CUpti_ActivityKernel5..10, Memcpy3..6, MemcpyPtoP2..4, Memset2..4, Overhead..3,
// Device3..5, Context and Context3; which version writes which struct is in NVIDIA's release notes, and for
// 18, 26, 28 and 130001 in recorded buffers.
constexpr VersionedLayout kLayouts[] = {
    {130000, {216, 96, 96, 88, 56, 184, 32}},  // CUDA 13.0
    {26, {208, 96, 96, 88, 56, 184, 32}},      // 12.8
    {19, {208, 88, 96, 88, 40, 176, 16}},      // 12.0
    {18, {200, 88, 96, 88, 40, 176, 16}},      // 11.8
    {17, {176, 88, 96, 88, 40, 152, 16}},      // 11.6
    {15, {168, 80, 88, 80, 40, 152, 16}},      // 11.2
    {14, {160, 80, 88, 80, 40, 152, 16}},      // 11.1
    {0, {160, 72, 80, 72, 40, 152, 16}},       // 11.0
};

// One record of `size` bytes in the loaded version. Reads a field only when all of it lies within.
class RecordView {
 public:
  RecordView(const std::uint8_t* bytes, std::uint32_t size) : bytes_(bytes), size_(size) {}

  template <typename T>
  [[nodiscard]] T get(std::uint32_t offset) const {
    T value{};
    if (offset + sizeof(T) <= size_) std::memcpy(&value, bytes_ + offset, sizeof(T));
    return value;
  }

  void copy(std::uint32_t offset, void* to, std::uint32_t bytes) const {
    if (offset + bytes <= size_) std::memcpy(to, bytes_ + offset, bytes);
  }

 private:
  const std::uint8_t* bytes_;
  std::uint32_t size_;
};

template <typename T>
T* begin(T& record, pillion_record_type type) {
  std::memset(&record, 0, sizeof(record));
  record.header.type = type;
  record.header.size = sizeof(record);
  return &record;
}

void decode_kernel(const RecordView& view, DecodedRecord* out) {
  pillion_kernel* kernel = begin(out->kernel, PILLION_RECORD_KERNEL);
  kernel->registers = view.get<std::uint16_t>(6);
  kernel->start_ns = view.get<std::uint64_t>(16);
  kernel->end_ns = view.get<std::uint64_t>(24);
  kernel->device = view.get<std::uint32_t>(40);
  kernel->context = view.get<std::uint32_t>(44);
  kernel->stream = view.get<std::uint32_t>(48);
  view.copy(52, kernel->grid, sizeof(kernel->grid));
  view.copy(64, kernel->block, sizeof(kernel->block));
  kernel->static_shared_bytes = view.get<std::uint32_t>(76);
  kernel->dynamic_shared_bytes = view.get<std::uint32_t>(80);
  kernel->correlation = view.get<std::uint32_t>(92);
  out->name = view.get<const char*>(104);
  kernel->graph_node = view.get<std::uint64_t>(144);
  kernel->graph = view.get<std::uint32_t>(156);
}

// MEMCPY and MEMCPY2 agree up to the stream; after it the latter names both ends.
void decode_copy(const RecordView& view, bool peer, DecodedRecord* out) {
  pillion_copy* copy = begin(out->copy, PILLION_RECORD_COPY);
  copy->copy_kind = view.get<std::uint8_t>(4);
  copy->bytes = view.get<std::uint64_t>(8);
  copy->start_ns = view.get<std::uint64_t>(16);
  copy->end_ns = view.get<std::uint64_t>(24);
  copy->device = view.get<std::uint32_t>(32);
  copy->context = view.get<std::uint32_t>(36);
  copy->stream = view.get<std::uint32_t>(40);
  copy->correlation = view.get<std::uint32_t>(peer ? 60 : 44);
  copy->graph_node = view.get<std::uint64_t>(peer ? 72 : 64);
  copy->graph = view.get<std::uint32_t>(peer ? 80 : 72);
  copy->source_device = peer ? view.get<std::uint32_t>(44) : copy->device;
  copy->destination_device = peer ? view.get<std::uint32_t>(52) : copy->device;
}

void decode_set(const RecordView& view, DecodedRecord* out) {
  pillion_set* set = begin(out->set, PILLION_RECORD_SET);
  set->bytes = view.get<std::uint64_t>(8);
  set->start_ns = view.get<std::uint64_t>(16);
  set->end_ns = view.get<std::uint64_t>(24);
  set->device = view.get<std::uint32_t>(32);
  set->context = view.get<std::uint32_t>(36);
  set->stream = view.get<std::uint32_t>(40);
  set->correlation = view.get<std::uint32_t>(44);
  set->graph_node = view.get<std::uint64_t>(64);
  set->graph = view.get<std::uint32_t>(72);
}

void decode_overhead(const RecordView& view, DecodedRecord* out) {
  pillion_overhead* overhead = begin(out->overhead, PILLION_RECORD_OVERHEAD);
  overhead->kind = view.get<std::uint32_t>(4);
  overhead->start_ns = view.get<std::uint64_t>(24);
  overhead->end_ns = view.get<std::uint64_t>(32);
}

void decode_device(const RecordView& view, DecodedRecord* out) {
  pillion_device* device = begin(out->device, PILLION_RECORD_DEVICE);
  device->multiprocessors = view.get<std::uint32_t>(44);
  device->compute_major = static_cast<std::uint16_t>(view.get<std::uint32_t>(104));
  device->compute_minor = static_cast<std::uint16_t>(view.get<std::uint32_t>(108));
  device->device = view.get<std::uint32_t>(112);
  device->mig = view.get<std::uint8_t>(145) != 0 ? 1 : 0;
  view.copy(120, device->uuid, sizeof(device->uuid));
  if (device->mig != 0) view.copy(160, device->uuid, sizeof(device->uuid));
  out->name = view.get<const char*>(136);
}

void decode_context(const RecordView& view, DecodedRecord* out) {
  pillion_context* context = begin(out->context, PILLION_RECORD_CONTEXT);
  context->context = view.get<std::uint32_t>(4);
  context->device = view.get<std::uint32_t>(8);
}

}  // namespace

RecordLayout record_layout(std::uint32_t api_version) {
  for (const VersionedLayout& entry : kLayouts) {
    if (api_version >= entry.first_api_version) return entry.layout;
  }
  return kLayouts[0].layout;
}

DecodeResult decode_record(const RecordLayout& layout, const std::uint8_t* record, std::size_t available,
                           DecodedRecord* out) {
  out->name = nullptr;
  if (available < sizeof(std::uint32_t)) return DecodeResult::too_short;
  std::uint32_t kind = 0;
  std::memcpy(&kind, record, sizeof(kind));
  std::uint32_t size = 0;
  switch (kind) {
    case cupti::kActivityConcurrentKernel:
      size = layout.kernel;
      break;
    case cupti::kActivityMemcpy:
      size = layout.memcpy;
      break;
    case cupti::kActivityMemcpy2:
      size = layout.peer_copy;
      break;
    case cupti::kActivityMemset:
      size = layout.memset;
      break;
    case cupti::kActivityOverhead:
      size = layout.overhead;
      break;
    case cupti::kActivityDevice:
      size = layout.device;
      break;
    case cupti::kActivityContext:
      size = layout.context;
      break;
    default:
      return DecodeResult::unknown_kind;
  }
  if (available < size) return DecodeResult::too_short;
  const RecordView view(record, size);
  switch (kind) {
    case cupti::kActivityConcurrentKernel:
      decode_kernel(view, out);
      break;
    case cupti::kActivityMemcpy:
      decode_copy(view, false, out);
      break;
    case cupti::kActivityMemcpy2:
      decode_copy(view, true, out);
      break;
    case cupti::kActivityMemset:
      decode_set(view, out);
      break;
    case cupti::kActivityOverhead:
      decode_overhead(view, out);
      break;
    case cupti::kActivityContext:
      decode_context(view, out);
      break;
    default:
      decode_device(view, out);
      break;
  }
  return DecodeResult::decoded;
}

}  // namespace pillion::shim
