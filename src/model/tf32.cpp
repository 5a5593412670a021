// Switch for TF32 in products of f32 matrices and in convolutions on GPUs, which tch does not offer.

#include <ATen/Context.h>

// Allows or forbids TF32, overriding the environment where possible. Returns true if TF32 is allowed now. Throws
// nothing.
extern "C" bool pairloom_allow_tf32(bool allow) noexcept {
  try {
    at::globalContext().setAllowTF32CuBLAS(allow);
    at::globalContext().setAllowTF32CuDNN(allow);
    return at::globalContext().allowTF32CuBLAS() || at::globalContext().allowTF32CuDNN();
  } catch (...) {
    return true;
  }
}
