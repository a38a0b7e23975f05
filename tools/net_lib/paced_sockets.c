// Loaded before a program (LD_PRELOAD): its TCP connections send at most PACED_BYTES_PER_S each, as
// between machines of clouds that limit every connection. The kernel paces them, and a connection
// that is accepted is as its listener.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
  int (*next)(int, int, int);
  *(void**)&next = dlsym(RTLD_NEXT, "socket");
  const int descriptor = next(domain, type, protocol);
  const char* const text = getenv("PACED_BYTES_PER_S");
  const int is_tcp = (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM;
  if (descriptor >= 0 && is_tcp && text != NULL) {
    const unsigned long rate = strtoul(text, NULL, 10);
    setsockopt(descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
  }
  return descriptor;
}
