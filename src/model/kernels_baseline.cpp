// The kernels of kernels_body.h at one level; cmake/layers.cmake gives this file its instruction set.
#define TRIBUTARY_KERNEL_LEVEL baseline
#include "model/kernels_body.h"

namespace tributary::model {

const Kernels& kernels_baseline() { return baseline::table; }

}  // namespace tributary::model
