// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modes.h"

// The reasons that several flags or variables share. A mode that is new belongs into each of these lists in
// which it has no use for what the list is about; the test over the tables names the flags that are left.
namespace pillion {

// For what is about finding processes and shims.
inline constexpr ModeReasons kFindsNothing =
    ModeReasons(kInstall, "install only copies files, it attaches to nothing") +
    ModeReasons(kProbe, "probe only asks a running server, it attaches to nothing");

// For what is about attaching to processes and taking profiles.
inline constexpr ModeReasons kAttachesNothing =
    kFindsNothing + ModeReasons(kInject, "inject only loads the shim, it takes no profile") +
    ModeReasons(kDoctor, "doctor only looks, it takes no profile");

// For the address of a server, which probe needs as well.
inline constexpr ModeReasons kNeverAddressed = ModeReasons(kRecord, "record answers no requests") +
                                               ModeReasons(kInstall, "install answers no requests") +
                                               ModeReasons(kInject | kDoctor, "it answers no requests");

// For what else is about answering requests.
inline constexpr ModeReasons kHasNoServer =
    kNeverAddressed + ModeReasons(kProbe, "probe starts no server, it asks one (-url, -listen)");

// For what is about sending a request.
inline constexpr ModeReasons kAsksNobody = ModeReasons(kServe, "serve answers requests, it sends none") +
                                           ModeReasons(kRecord, "record sends no requests") +
                                           ModeReasons(kInstall, "install sends no requests") +
                                           ModeReasons(kInject | kDoctor, "it sends no requests");

// For what is about the one profile that record writes.
inline constexpr ModeReasons kWritesNoFile =
    ModeReasons(kServe, "each HTTP request says it for itself (/profile?...)") + kAttachesNothing;

// For the format of a profile or an answer.
inline constexpr ModeReasons kFormatsNothing =
    ModeReasons(kServe, "each HTTP request says it for itself (/profile?...)") + kFindsNothing +
    ModeReasons(kInject, "inject writes two lines, and no profile");

// For what is about copying files to where a workload can load them.
inline constexpr ModeReasons kInstallsNothing =
    ModeReasons(kServe, "the shim takes the CUPTI that `pillion install` put beside it") +
    ModeReasons(kRecord, "the shim takes the CUPTI that lies beside it") +
    ModeReasons(kProbe, "probe only asks a running server, it copies nothing") +
    ModeReasons(kInject, "inject hands over the CUPTI that lies beside the shim") +
    ModeReasons(kDoctor, "doctor only looks, it copies nothing");

// For what is about loading the shim into a process that runs.
inline constexpr ModeReasons kInjectsNothing =
    kFindsNothing + ModeReasons(kCommand, "the command is started with the shim") +
    ModeReasons(kServe | kAttach, "load the shim with `pillion inject` first") +
    ModeReasons(kDoctor, "doctor changes nothing; it says where -force would be needed");

}  // namespace pillion
