// All C++ of this crate as one unit: the headers of libtorch, which take most of the time, are read once.

#include "collective/shim.cpp"
#include "autograd_node.cpp"
#include "gpu_arithmetic.cpp"
#include "pinned_memory.cpp"
#include "networks/torchscript_prints.cpp"
