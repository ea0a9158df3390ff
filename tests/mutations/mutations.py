# SPDX-License-Identifier: Apache-2.0
"""Every safeguard that a test claims to hold, undone: see scripts/check_mutations."""
import sys

from mutation import IntegrationTest, InterpreterTest, Mutation, UnitTest

control = lambda case: UnitTest("unit_shim_control", case)  # noqa: E731
capture = lambda case: UnitTest("unit_shim_capture", case)  # noqa: E731
session = lambda case: UnitTest("unit_session", case)  # noqa: E731
options = lambda case: UnitTest("unit_options", case)  # noqa: E731
join = lambda case: UnitTest("unit_join", case)  # noqa: E731
orders = lambda case: IntegrationTest("test_orders.py", "OrderTest." + case)  # noqa: E731

HANDSHAKE = [
    Mutation("ready-not-checked", "the shim takes only a region that says READY", "shim/region.cpp",
             '  if (header.ready != PILLION_REGION_READY) return "header is not READY";\n', "",
             control("a region is refused by what is wrong with it")),
    Mutation("ready-not-written", "the sidecar says READY", "sidecar/session/ring_memory.cpp",
             ".store(PILLION_REGION_READY,", ".store(0,",
             session("three sealed regions whose headers say where everything is")),
    Mutation("ready-first", "READY is written after everything else", "sidecar/session/ring_memory.cpp",
             "  std::memcpy(start_, &header, sizeof(header));\n",
             "  pillion_region_header whole = header;\n  whole.ready = PILLION_REGION_READY;\n"
             "  std::memcpy(start_, &whole, sizeof(whole));\n",
             session("a region that could not be sealed never says READY")),
    Mutation("generation-of-region", "a region of another session is refused", "shim/region.cpp",
             '  if (header.generation != wish.generation) return "header generation";\n', "",
             control("header fields are checked one by one, and none can lead outside")),
    Mutation("generation-of-disarm", "a DISARM for an earlier session is not taken for this one",
             "shim/control_session.cpp", "  if (disarm.generation != arm_.generation) return;",
             "  if (false) return;", control("a DISARM of another session changes nothing")),
    Mutation("generation-of-answer", "an ARMED that answers an earlier ARM does not count",
             "sidecar/session/session_messages.cpp",
             "if (state_ != SessionState::arming || armed.generation != generation_) {",
             "if (state_ != SessionState::arming) {",
             session("generations grow from one arm to the next, and old answers do not count")),
    Mutation("access-gate-shim", "a peer of another uid is refused by the shim", "shim/control_socket.cpp",
             "  return peer.uid == own_uid || peer.uid == 0 || list_holds(lists.uids, peer.uid) ||\n"
             "         list_holds(lists.gids, peer.gid);",
             "  return true || own_uid == 0 || list_holds(lists.uids, peer.uid);",
             control("who may connect")),
    Mutation("access-gate-sidecar", "a shim of another uid is refused by the sidecar", "sidecar/session/session.cpp",
             "  if (peer_.uid != options_.own_uid &&", "  if (false && peer_.uid != options_.own_uid &&",
             session("a shim of another uid is named; with its uid allowed it attaches")),
    Mutation("other-major", "a shim that speaks another major is refused", "shim/control_messages.cpp",
             "  if (header.major != PILLION_ABI_MAJOR) {", "  if (false) {",
             control("what is not our protocol is told so and hung up on; the next one is served")),
    Mutation("seals-not-checked", "a region that its maker could cut short is refused", "shim/region.cpp",
             "  if ((seals & kNeeded) != kNeeded)", "  if ((seals & kNeeded) < 0)",
             control("a region is refused by what is wrong with it")),
]

DISARM = [
    Mutation("peer-gone", "the end of the connection disarms", "shim/control_session.cpp",
             "    drain(PILLION_DISARM_PEER_GONE, false, finalize_unasked());", "", control("the end of the connection disarms")),
    Mutation("lease", "a silent sidecar loses its lease", "shim/control_session.cpp",
             "    } else if (now >= lease_deadline_) {", "    } else if (false && now >= lease_deadline_) {",
             control("a silent sidecar loses its lease and learns so; one that renews keeps it")),
    Mutation("arming-deadline", "an arming that hangs is given up", "shim/control_session.cpp",
             "  } else if (now >= arming_deadline_) {", "  } else if (false && now >= arming_deadline_) {",
             control("an arming that hangs is refused at its deadline, undone when it returns, and works afterwards")),
    Mutation("stood-still", "a process that was stopped has not used up its time for arming", "shim/control_session.cpp",
             "    if (now - advanced_ > kStoodStillNs) arming_deadline_ += now - advanced_;\n", "",
             control("the time in which the process stood still does not count against an arming")),
]

# The four races: (1) what a client needs exists before CUDA initialises, (2) our own calls do not recurse into our own
# machinery, (3) what is half-built is waited for and not used, (4) a worker ends before what it uses goes away.
RACES = [
    Mutation("socket-later", "(1) the socket is there when the entry point returns", "shim/entry.cpp",
             "  if (pillion::shim::start_once(pillion::shim::settings_of_environment()) == nullptr) {\n",
             "  pthread_t thread{};\n"
             "  const auto later = [](void*) -> void* {\n"
             "    (void)pillion::shim::start_once(pillion::shim::settings_of_environment());\n"
             "    return nullptr;\n  };\n"
             "  if (::pthread_create(&thread, nullptr, later, nullptr) == 0) {\n",
             control("what a sidecar connects to is there when the entry point returns, before CUDA is initialised")),
    Mutation("start-recurses", "(2) a second call of the entry point starts nothing", "shim/entry.cpp",
             "  return started.exchange(true) ? kStartedBefore : start(settings);\n",
             "  started.exchange(true);\n  return start(settings);\n",
             control("the entry point called again, also from within and by 32 threads at once, starts nothing more")),
    Mutation("handler-recurses", "(2) a launch made within our own handler is not handled", "shim/launch_recorder.cpp",
             "  if (thread.inside != 0) {\n", "  if (thread.inside > 1) {\n",
             capture("a launch from within our own handler is counted and not recorded")),
    Mutation("name-before-socket", "(3) a socket's name appears when it can be connected to", "shim/control_socket.cpp",
             '.add(".").add(socket_name).add(".new");', ".add(socket_name);",
             control("a socket that can be seen can be connected to")),
    Mutation("completion-not-awaited", "(4) a session ends only when no completion is inside", "shim/activity_recorder.cpp",
             "g_completions.load(std::memory_order_seq_cst) != 0;", "g_completions.load(std::memory_order_seq_cst) > 1000;",
             capture("a session's end waits for a completion that is under way")),
    Mutation("memory-before-worker", "(4) rings are unmapped only when the capture thread is through",
             "shim/control_session.cpp",
             "    if (capture_through(now)) finish();", "    finish();",
             control("a session's memory stays until the thread that uses it is through")),
    Mutation("rings-before-producers", "(4) a ring set is closed only when no producer is inside", "shim/ring_writer.cpp",
             "  return thread_is_gone(seen) &&\n"
             "         ring.lock.compare_exchange_strong(seen, Ring::kClosed, std::memory_order_acquire);\n",
             "  ring.lock.store(Ring::kClosed, std::memory_order_relaxed);\n  return true;\n",
             control("closed under fire: after close() nobody touches the region, which may go")),
    Mutation("live-holder", "(4) the ring of a thread that lives is never freed under it", "shim/ring_writer.cpp",
             "    if (!held(holder) || !thread_is_gone(holder)) {", "    if (!held(holder)) {",
             control("the lock of a dead thread is freed after two ticks, a live one's never")),
    Mutation("exit-does-not-wait", "(4) at exit the session is flushed and disarmed before the program is gone",
             "shim/control_thread.cpp",
             "  const std::uint64_t deadline = monotonic_ns() + std::uint64_t{wait_ms} * 1'000'000u;\n"
             "  for (std::uint64_t now = monotonic_ns(); now < deadline; now = monotonic_ns()) {\n"
             "    if (exit_finished",
             "  const std::uint64_t deadline = 0 * std::uint64_t{wait_ms};\n"
             "  for (std::uint64_t now = monotonic_ns(); now < deadline; now = monotonic_ns()) {\n"
             "    if (exit_finished",
             control("armed, exit flushes, tells the sidecar, keeps its status, while threads go on launching")),
]

# Which detach the program survives (shim/detach.h); in the last row here the double dies of the wrong one.
FINALIZE = [
    Mutation("finalize-several", "two threads that replay graphs: never finalised", "shim/graph_threads.cpp",
             "  if (recently > 1) return {GraphUse::several, 0};", "  if (recently > 1000) return {GraphUse::several, 0};",
             capture("two graph threads: disabled and unsubscribed, never finalised")),
    Mutation("finalize-on-any-thread", "only the thread that replays graphs finalises", "shim/detach.cpp",
             "  return only == 0 || only == own_tid() ? word : 0;\n", "  (void)only;\n  return word;\n",
             capture("when the graph thread makes no call, other threads' exits do not finalise")),
    Mutation("disable-first", "kinds stay enabled until finalize", "shim/detach.cpp", "  g_subject = subject;\n",
             "  g_subject = subject;\n  for (std::uint32_t at = 0; at < subject.kind_count; ++at)\n"
             "    (void)subject.api->activity_disable(subject.kinds[at]);\n",
             capture("without graphs any thread's API exit finalises, with the kinds still enabled")),
    Mutation("finalize-old-cupti", "a CUPTI older than 12.6 is not finalised after graphs", "shim/detach.cpp",
             "graphs.kind != GraphUse::none && subject.api->version < kGraphSafeVersion",
             "graphs.kind == GraphUse::several && subject.api->version < kGraphSafeVersion",
             capture("an old library with graphs is never finalised")),
    Mutation("finalize-kills", "the choice, seen by a program that dies of the wrong one", "shim/graph_threads.cpp",
             "  if (recently > 1) return {GraphUse::several, 0};", "  if (recently > 1000) return {GraphUse::several, 0};",
             IntegrationTest("test_detach.py", "DetachTest.test_two_threads_replay_graphs")),
    Mutation("finalize-elsewhere-kills", "the thread, seen by a program that dies of the wrong one", "shim/detach.cpp",
             "  return only == 0 || only == own_tid() ? word : 0;\n", "  (void)only;\n  return word;\n",
             IntegrationTest("test_detach.py",
                             "DetachTest.test_one_thread_replays_graphs_beside_three_that_launch_kernels")),
    Mutation("disable-first-kills", "the order, seen by a program that dies of the wrong one", "shim/detach.cpp",
             "  g_subject = subject;\n",
             "  g_subject = subject;\n  for (std::uint32_t at = 0; at < subject.kind_count; ++at)\n"
             "    (void)subject.api->activity_disable(subject.kinds[at]);\n",
             IntegrationTest("test_detach.py", "DetachTest.test_one_thread_replays_nothing_but_graphs")),
    Mutation("finalize-old-kills", "the version, seen by a program that dies of the wrong one", "shim/detach.cpp",
             "graphs.kind != GraphUse::none && subject.api->version < kGraphSafeVersion",
             "graphs.kind == GraphUse::several && subject.api->version < kGraphSafeVersion",
             IntegrationTest("test_detach.py", "DetachTest.test_old_cupti_with_graphs")),
    Mutation("finalize-after-disable", "after a disable under graphs CUPTI is not finalised any more", "shim/detach.cpp",
             "  if (g_disabled_after_graphs) return", "  if (false) return",
             capture("after a detach that had to disable kinds under graphs CUPTI is not finalised any more")),
    Mutation("finalize-without-end", "CUPTI is not finalised again and again", "shim/finalize_budget.cpp",
             "  if (left_ == 0) return false;\n", "  if (left_ == 0) return true;\n",
             capture("so many at once, then one at a time")),
    Mutation("flush-in-flood", "no flush while records flood", "shim/flush_policy.h",
             "return calm_.load(std::memory_order_relaxed);", "return true;",
             IntegrationTest("test_detach.py", "DetachTest.test_records_that_flood")),
    Mutation("modules-left-on", "CUPTI is not left while it hands over modules", "shim/capture.cpp",
             "  if (session.profiled_on.exchange(false, std::memory_order_relaxed))",
             "  if (false && session.profiled_on.exchange(false, std::memory_order_relaxed))",
             IntegrationTest("test_detach.py", "DetachTest.test_modules_that_load_to_the_end")),
    Mutation("never-finalized-late", "a process that was idle at its detach is finalized once it works",
             "sidecar/pipeline/attachments.cpp", "      finalize_late(attachment);\n", "",
             IntegrationTest("test_detach.py", "DetachTest.test_an_idle_program_is_finalized_once_it_works_again")),
    Mutation("offer-not-numbered", "a pending finalize of one session is not the next one's", "shim/detach.cpp",
             "  std::uint32_t expected = offer;\n", "  std::uint32_t expected = g_detach.load();\n",
             capture("a thread that looked at one detach does not carry out the next")),
]

CALLS = [
    Mutation("return-of-another-session", "a return is told in the session that has the call's record",
             "shim/sync_recorder.cpp",
             "  if (!ReturnMark(number, data.correlation_id).is_in(kept)) return;\n", "",
             capture("a return is told only in the session that has the call's record")),
    Mutation("clock-not-compared", "the processor's counter is used only while it agrees with the kernel's clock",
             "shim/stamp_clock.h", "kErrorMaxNs = 5'000;", "kErrorMaxNs = 5'000'000;",
             capture("where it does not agree with the kernel's clock it is not used until it does")),
    Mutation("call-of-many-nodes", "a graph's launch call counts once", "sidecar/join/joiner_calls.cpp",
             "  launch.call_told = true;\n", "", join("a graph's call counts once, however many nodes ran")),
    Mutation("sync-not-cut", "a synchronisation call counts with what of it lies in the window", "sidecar/join/window.cpp",
             "std::max(call.start_ns, t0_ns_);", "call.start_ns;",
             join("a call counts with what of it lies in the window")),
]

JOIN = [
    Mutation("eviction-swapped", "joined launches leave silently, unjoined ones are counted",
             "sidecar/join/joiner.cpp", "    if (launch->executions > 0) {\n      give_up_stack(oldest);",
             "    if (launch->executions == 0) {\n      give_up_stack(oldest);",
             join("a full table drops joined launches silently and pending ones by name")),
    Mutation("correlation-epoch", "a correlation id that wrapped is another launch's", "sidecar/join/joiner.cpp",
             "  return newest_ + static_cast<Key>(static_cast<std::int64_t>(distance));\n",
             "  return static_cast<Key>(correlation) + 0 * static_cast<Key>(distance);\n",
             join("an id that comes again while its launch of the last round still waits is another launch's")),
    Mutation("correlation-round", "ids that went round are told from those of the last round", "sidecar/join/joiner.cpp",
             "    key += kEpoch;\n", "    key += 0;\n",
             join("ids that were used up unseen, more than half a round, are ahead and not behind")),
    Mutation("session-epoch", "ids restart with a session: nothing of the last one is joined", "sidecar/join/joiner.cpp",
             "  launches_.clear();\n", "", join("a new session starts from nothing")),
]

ORDERS = [
    Mutation("deadline-before-answer", "what came while we stood still is read before its deadline is judged",
             "sidecar/session/session.cpp", "  read_packets();\n  if (state_ != before) return;\n", "  (void)before;\n",
             session("an answer that came while this process stood still is taken before its deadline is judged")),
    Mutation("dead-peer-holds", "a peer that has gone does not hold the shim", "shim/control_answers.cpp",
             "  if (peer_.open() && peer_.hung_up()) lose_peer();\n", "",
             orders("test_clients_dead_in_the_queue_of_a_stopped_shim")),
    Mutation("session-of-the-one-before", "a shim whose last session is still ending is not asked to begin another",
             "sidecar/pipeline/attachments.cpp",
             "    if (hello.armed()) attachment->arm_again_ns = monotonic_ns() + kOthersSessionNs;\n", "",
             orders("test_sidecar_restarted_in_mid_session")),
    Mutation("files-not-fetched", "files are there when their program has gone", "sidecar/pipeline/attachments.cpp",
             "  attachment->to_fetch = code_.missing_files(session.target());\n", "",
             orders("test_program_that_is_gone_before_its_stacks_are_walked")),
    Mutation("rings-of-the-dead", "a process that has ended gives its rings back", "sidecar/pipeline/drained_target.cpp",
             "  collector_.release();\n", "", orders("test_max_sessions")),
]

RECORD = [
    Mutation("flag-nowhere", "every flag says for every mode whether it applies", "sidecar/flags_output.cpp",
             'with a command: until it ends)",\n     kRecord, kWritesNoFile,',
             'with a command: until it ends)",\n     kAttach, kWritesNoFile,',
             options("every flag is classified exactly once for every mode")),
    Mutation("flag-twice", "no flag says of a mode that it applies and does not", "sidecar/mode_reasons.h",
             '"each HTTP request says it for itself (/profile?...)") + kAttachesNothing;',
             '"each HTTP request says it for itself (/profile?...)") + kAttachesNothing + ModeReasons(kAttach, "no");',
             options("every flag is classified exactly once for every mode")),
    Mutation("default-refused", "a default is taken by every command", "sidecar/options.cpp",
             "      if (flag->is_default(text)) continue;\n", "",
             options("a default is never refused, in whatever words")),
    Mutation("start-too-early", "a recorded program goes on only when its window is open",
             "sidecar/pipeline/attachments.cpp", "  if (!attachment.held || holding_) return;",
             "  if (!attachment.held) return;",
             IntegrationTest("test_record.py", "CommandTest.test_no_launch_is_lost_from_the_first_one_on")),
    Mutation("held-by-nobody", "a program waits only for a recorder that holds its lock", "shim/start_hold.cpp",
             "  return locked;\n", "  return locked || true;\n",
             control("nobody is waited for whose file is not locked, not there, or no file")),
]

PYTHON = [
    Mutation("entry-beyond-frame", "Python frames go where the native frame that runs them ends, too",
             "sidecar/unwind/python_splice.cpp", " && address < native.stack_pointers[i + 1]) return i;", ") return i;",
             UnitTest("unit_unwind", "frames whose native part was not walked stand at the root side, marked")),
    Mutation("splice-order", "places of Python frames only grow towards the root", "sidecar/unwind/python_splice.cpp",
             "    if (run.place != kNowhere) next = run.place + 1;\n", "",
             UnitTest("unit_unwind", "two runs cannot have one native frame")),
    Mutation("greenlet-end", "what lies on the stack beyond a greenlet's beginning is left out",
             "sidecar/unwind/python_splice.cpp", "for (std::size_t i = 0; i < end; ++i) {",
             "for (std::size_t i = 0; i < std::max(end, native.frames.size()); ++i) {",
             UnitTest("unit_unwind", "a greenlet's stack ends at the native frame that called its first function")),
    Mutation("pages-forgotten", "what a thread heard of pages holds until they are forgotten", "shim/python_walk.h",
             "    if (generation_ != memory.generation) return;\n", "",
             UnitTest("unit_shim_python", "pages that were forgotten are tried again, also by a thread that has used them")),
    Mutation("address-reused", "a code object at the address of one that died is another one", "shim/python_codes.h",
             "return {version << 32 | line, 0, true};", "return {line, 0, true};",
             UnitTest("unit_shim_python", "a chain that is built from the headers' layout is read frame by frame")),
    Mutation("no-line", "code that belongs to no line has none", "sidecar/symbolize/python_lines.cpp",
             "code == none ? 0 : as_line(line)", "as_line(line)",
             UnitTest("unit_symbolize", "each instruction's line is the one that the interpreter gives")),
]

# Rows of shim/python_offsets.h for the CPython of Debian 12 and 13. A wrong offset has to come out as frames that differ
# (or as names that are no text), never as a fault of the interpreter that was looked at.
FRAMES_DIFFER = r"AssertionError: (\{.* != \{\}|1 != 0)"
ROWS = {
    (3, 11): "{0x030b, kNo, 56, 152, 8, 16, 48, 32, 56, 69, 68, 72, kNo, 112, 128, 136, 168, 184, 48, 72, 576, 40}",
    (3, 13): "{0x030d, 72, kNo, 152, kNo, kNo, 8, 0, 56, 70, kNo, 68, 92, 112, 128, 136, 184, 200, 40, 56, kNo, kNo}",
}


def offset(name, what, places, by):
    """The offset at this place of the row, which is given by version, is another one."""
    row = ROWS.get(sys.version_info[:2], ROWS[3, 11])
    words = row[1:-1].split(", ")
    place = places if isinstance(places, int) else places[0 if row == ROWS[3, 11] else 1]
    words[place] = str(int(words[place]) + by)
    return Mutation(f"offset-{name}", f"the offset of {what} is right", "shim/python_offsets.h", row,
                    "{" + ", ".join(words) + "}", InterpreterTest(), FRAMES_DIFFER)


OFFSETS = [
    offset("thread-frame", "a thread state's innermost frame (in 3.11 of its C frame)", (2, 1), 8),
    offset("thread-id", "a thread state's thread", 3, 8),
    offset("frame-previous", "a frame's caller", 6, 8),
    offset("frame-code", "a frame's code object", 7, 8),
    offset("frame-instruction", "a frame's instruction", 8, 8),
    offset("frame-owner", "who a frame belongs to", 9, 8),
    offset("code-name", "a code object's qualified name", 14, -8),
    offset("code-file", "a code object's file", 13, 8),
    offset("code-first-line", "a code object's first line", 11, 4),
    offset("code-lines", "a code object's line table", 15, 8),
    offset("code-bytecode", "a code object's bytecode (co_code_adaptive)", 17, 8),
    offset("text-data", "a str's characters", 18, 8),
]

MUTATIONS = HANDSHAKE + DISARM + RACES + FINALIZE + CALLS + JOIN + ORDERS + RECORD + PYTHON + OFFSETS
