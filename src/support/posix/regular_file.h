// Files that a caller names. Only regular ones are opened: a FIFO or a device could make a call
// wait for ever, and opening some devices has effects of its own.
#ifndef GQ_SUPPORT_POSIX_REGULAR_FILE_H
#define GQ_SUPPORT_POSIX_REGULAR_FILE_H

#include <stddef.h>

namespace gq {

/** "it is a FIFO, not a regular file" and the like; NULL for a regular file, and for what cannot be
 *  looked at. Static storage. */
const char* irregular_file(const char* path);

/** Reads the file at `path`, which has fewer than `capacity_bytes`, and sets *size_bytes. NULL, or
 *  why the file cannot be read, in static storage. */
const char* read_regular_file(const char* path, char* text, size_t capacity_bytes,
                              size_t* size_bytes);

}  // namespace gq

#endif
