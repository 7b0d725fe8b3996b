// What the parts of the emulator know of each other.

#pragma once

#include <functional>

namespace emu {
struct Kernel;
const Kernel *find_kernel(const char *name);
// bind_kernel copies the arguments of a launch; the result runs it.
std::function<void()> bind_kernel(const Kernel *k, const unsigned *dims, void **params);
} // namespace emu

// emu_enqueue puts work into a stream, for libraries that are not the driver.
extern "C" void emu_enqueue(void *stream, std::function<void()> *work);
