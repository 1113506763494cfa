#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <string_view>

#include "app/commands.h"

namespace {

// LibTorch's threads spin for a millisecond where they wait for each other, which on a machine with other work takes
// the processor from the very thread that is waited for. The OpenMP library reads its settings before main(), so they
// need a start of the program of their own; where that fails, it only runs slower.
void limit_spinning(char** argv) {
  if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "train") limit_spinning(argv);
  // Tensors come and go by the megabyte: keep their memory instead of returning it to the system and faulting it in
  // again.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  return tributary::app::run_command_line(argc, argv);
}
