/* UCX with a wire that changes a bit: a library that UCX's users open in its place. Everything but
 * one function is the real one's, which this one needs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kControlBytes = 80 };

static atomic_long left;          /* messages before the one that is changed; below 0: none */
static atomic_ulong random_bits;  /* which bit of it */
static atomic_int in_headers;     /* control messages are meant, and not the others */
static void* copy; /* what is sent, as long as UCX may read it */

/* Message `message` from now on is changed, of words or of control messages. */
void gq_flip(long message, unsigned long random, int headers) {
  free(copy);
  copy = NULL;
  atomic_store(&random_bits, random);
  atomic_store(&in_headers, headers);
  atomic_store(&left, message);
}

void* ucp_tag_send_nbx(void* endpoint, const void* bytes, size_t size, uint64_t tag,
                       const void* parameters) {
  typedef void* (*Send)(void*, const void*, size_t, uint64_t, const void*);
  static _Atomic(Send) real;
  Send send = atomic_load(&real);
  if (send == NULL) {
    *(void**)&send = dlsym(RTLD_NEXT, "ucp_tag_send_nbx");
    atomic_store(&real, send);
  }
  const int is_header = size == kControlBytes;
  if (size > 0 && is_header == atomic_load(&in_headers) && atomic_fetch_sub(&left, 1) == 0) {
    unsigned char* const spoilt = copy = malloc(size);
    if (spoilt == NULL) abort();
    const unsigned long bit = atomic_load(&random_bits) % (8 * size);
    memcpy(spoilt, bytes, size);
    spoilt[bit / 8] ^= (unsigned char)(1u << bit % 8);
    bytes = spoilt;
  }
  return send(endpoint, bytes, size, tag, parameters);
}
