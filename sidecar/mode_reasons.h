// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modes.h"

// The reasons that several flags or variables share. A mode that is new belongs into each of these lists in
// which it has no use for what the list is about; the test over the tables names the flags that are left.
namespace pillion {

// For what is about attaching to processes and taking profiles.
inline constexpr ModeReasons kAttachesNothing =
    ModeReasons(kInstall, "install only copies files, it attaches to nothing") +
    ModeReasons(kProbe, "probe only asks a running server, it attaches to nothing");

// For the address of a server, which probe needs as well.
inline constexpr ModeReasons kNeverAddressed =
    ModeReasons(kRecord, "record answers no requests") + ModeReasons(kInstall, "install answers no requests");

// For what else is about answering requests.
inline constexpr ModeReasons kHasNoServer =
    kNeverAddressed + ModeReasons(kProbe, "probe starts no server, it asks one (-url, -listen)");

// For what is about sending a request.
inline constexpr ModeReasons kAsksNobody = ModeReasons(kServe, "serve answers requests, it sends none") +
                                           ModeReasons(kRecord, "record sends no requests") +
                                           ModeReasons(kInstall, "install sends no requests");

// For what is about the one profile that record writes.
inline constexpr ModeReasons kWritesNoFile =
    ModeReasons(kServe, "each HTTP request says it for itself (/profile?...)") + kAttachesNothing;

// For what is about copying files to where a workload can load them.
inline constexpr ModeReasons kInstallsNothing =
    ModeReasons(kServe, "the shim takes the CUPTI that `pillion install` put beside it") +
    ModeReasons(kRecord, "the shim takes the CUPTI that lies beside it") +
    ModeReasons(kProbe, "probe only asks a running server, it copies nothing");

}  // namespace pillion
