#include <malloc.h>

#include "app/commands.h"

int main(int argc, char** argv) {
  // Tensors come and go by the megabyte: keep their memory instead of returning it to the system and faulting it in
  // again.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  return tributary::app::run_command_line(argc, argv);
}
