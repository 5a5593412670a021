// Whether libtorch may multiply f32 matrices on GPUs in TF32, which tch does not offer.

#include <ATen/Context.h>

// Allows or forbids it, over what the environment says; gives back whether it is allowed now. No exception passes the border.
extern "C" bool pairloom_allow_tf32(bool allow) noexcept {
  try {
    at::globalContext().setAllowTF32CuBLAS(allow);
    return at::globalContext().allowTF32CuBLAS();
  } catch (...) {
    return true;
  }
}
