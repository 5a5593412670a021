// Stands in for a header of gloo, which libtorch contains and whose headers it does not ship: what c10d's inline code
// names. No object is made here, so only names must fit.
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
