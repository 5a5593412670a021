// Stands in for a header of gloo, which libtorch contains and whose headers it does not ship: c10d includes it and uses
// nothing of it.
#pragma once
