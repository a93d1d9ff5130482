// Copies strided elements.
#pragma once

#include "backends/cpu/run/view.h"

namespace transmuter::cpu {

class Binder;

// Launches to <- from; equal shapes and element widths, any strides. Both views' buffers count as touched by the
// caller.
void launch_copy(Binder& bind, const View& from, const View& to);

}  // namespace transmuter::cpu
