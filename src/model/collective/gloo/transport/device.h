// Stands in for a header of gloo, which libtorch contains and whose headers it does not ship: c10d hands devices around
// by pointer.
#pragma once

namespace gloo::transport {

class Device;

} // namespace gloo::transport
