// The kernels of kernels_body.h at one level; cmake/layers.cmake gives this file its instruction set.
#define TRIBUTARY_KERNEL_LEVEL avx2
#include "model/kernels_body.h"

namespace tributary::model {

const Kernels& kernels_avx2() { return avx2::table; }

}  // namespace tributary::model
