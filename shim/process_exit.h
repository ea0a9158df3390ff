// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace pillion::shim {

// Has a session ended before the program's exit goes on. Exit handlers run newest first, and CUPTI and the
// driver register theirs when they are loaded and when CUPTI is first used: a session that is ended after
// those have run calls into libraries that have been torn down (seen on an H200: a program that ended while
// it was profiled got SIGSEGV). So this is called once at start and again after each of the first armings.
// Any thread; allocates inside libc, so never on an application's thread but the one inside cuInit.
void expect_exit();

// In a forked child: the handlers stay registered and do nothing.
void forget_exit_in_child();

}  // namespace pillion::shim
