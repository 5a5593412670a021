// Handler of what modules in TorchScript print, which tch does not offer.

#include <string>
#include <torch/csrc/jit/runtime/print_handler.h>

// Drops what modules print from now on: the standard output has what the program itself says. Throws nothing.
extern "C" void pairloom_drop_torchscript_prints() noexcept {
  try {
    torch::jit::setPrintHandler([](const std::string &) {});
  } catch (...) {
  }
}
