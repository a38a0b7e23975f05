// Headers for devices, compiled for the host: to be included before any of them.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_DEVICE_CODE_ON_HOST_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_DEVICE_CODE_ON_HOST_H

#define GQ_WIDE_BYTES  // as on a device
#include "kernels/codec/portable.h"
#undef GQ_UNROLL
#define GQ_UNROLL  // Loops that stay loops compile in a third of the time.

#endif
