// Replacement for a header of gloo, which is part of libtorch, but whose headers libtorch does not ship. It declares
// what inline functions of c10d use. No object is created through it, so only the names must match.
#pragma once

#include <chrono>

namespace gloo {

namespace transport {
class UnboundBuffer;
}

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo
