// Replacement for a header of gloo, which is part of libtorch, but whose headers libtorch does not ship. c10d includes
// this header and uses nothing in it.
#pragma once
