// Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the process at once. Process-wide.
#pragma once

namespace tributary::app {

// `first_message` (static storage) goes to stderr on the first signal.
void catch_interrupts(const char* first_message);
bool interrupted();

}  // namespace tributary::app
