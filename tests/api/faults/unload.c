/* A program that loads the library, leaves a communicator open and a call unfinished, unloads it,
 * forks and exits: 0 if no process crashes. usage: unload <path of libgqsgd.so> */
#include <dlfcn.h>
#include <gqsgd.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef gqsgd_status (*create_local)(int32_t, const char *, gqsgd_comm *);

int main(int argument_count, char **arguments) {
  void *library = argument_count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return 2;
  create_local create;
  *(void **)&create = dlsym(library, "gqsgd_comm_create_local");
  gqsgd_comm comms[3];
  if (create == NULL || create(3, "", comms) != GQSGD_OK) return 3;
  if (dlclose(library) != 0) return 4;
  /* Its fork handlers must still be there, or gone in good order. */
  const pid_t child = fork();
  if (child == 0) exit(0);
  int wait_status = -1;
  if (waitpid(child, &wait_status, 0) != child || wait_status != 0) return 5;
  return 0;
}
