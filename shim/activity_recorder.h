// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture_session.h"

// Activity records: the buffers CUPTI asks for and hands back, decoded at once and pushed into the events
// rings.
namespace pillion::shim {

// For cuptiActivityRegisterCallbacks. Any thread, also one of CUPTI's own.
void buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
void buffer_completed(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                      std::size_t valid_size);

// For cuptiActivityRegisterTimestampCallback: CLOCK_MONOTONIC.
std::uint64_t activity_timestamp();

// Capture thread, before g_session is set. False without memory, or while a completion of an earlier session
// is still going on.
[[nodiscard]] bool activity_begin(std::uint32_t api_version);

// Capture thread: sends names, devices and contexts that found no room.
void activity_retry(CaptureSession& session, std::uint32_t tid);

// Capture thread, after g_session was taken away: returns when no completion touches that session any more,
// false when one takes more than `wait_ms`.
bool activity_quiesce(std::uint32_t wait_ms);

// What has become of the buffers that CUPTI was given.
enum class BufferFate : std::uint8_t {
  forgotten,  // CUPTI was finalised
  unused,     // no kind of ours is enabled any more
  foreign,    // another client's kinds go on, and may go on into our buffers
};

// Capture thread, after the session: returns the buffers' memory, as far as nobody can touch it.
void activity_end(BufferFate fate);

// How often CUPTI has asked us for a buffer or given one back; wraps.
[[nodiscard]] std::uint32_t activity_signs();

}  // namespace pillion::shim
