// Replacement for a header of gloo, which is part of libtorch, but whose headers libtorch does not ship. c10d uses
// devices only through pointers.
#pragma once

namespace gloo::transport {

class Device;

} // namespace gloo::transport
