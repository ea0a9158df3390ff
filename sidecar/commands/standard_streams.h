// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace pillion::commands {

// Descriptors 0 to 2 that the caller has closed would be given to whatever is opened next, and the log or the
// profile written into that. They become ones that can be neither read nor written (the log's: that keep
// nothing), and that a command of ours does not inherit. Before anything is opened.
void hold_standard_streams();

}  // namespace pillion::commands
