// MPI that cannot be used is a clear status: not initialised, on a wrong thread, finalised. One
// process, which needs no mpirun.
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/api/mpi/adapter.h"

namespace {

int g_failures = 0;

void expect(const char* what, gqsgd_status status, gqsgd_status expected, const char* words) {
  if (status == expected && std::strstr(gqsgd_last_error(), words) != nullptr) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, gqsgd_status_name(status), gqsgd_last_error());
  ++g_failures;
}

/** What the transport's progress answers, in a group that may call MPI `main_thread_only`. */
void expect_progress(const char* what, bool main_thread_only, int32_t expected) {
  gqsgd_mpi self = {};
  self.main_thread_only = main_thread_only ? 1 : 0;
  const int32_t code = gqsgd_mpi_progress(&self, 0);
  if (code == expected) return;
  std::fprintf(stderr, "%s: progress gives %d in place of %d\n", what, static_cast<int>(code),
               static_cast<int>(expected));
  ++g_failures;
}

}  // namespace

int main(int argc, char** argv) {
  gqsgd_comm comm = nullptr;
  expect("before MPI_Init", gqsgd_comm_create_mpi_world("", &comm), GQSGD_UNSUPPORTED,
         "not initialised");
  expect("before MPI_Init, by handle", gqsgd_comm_create_mpi_f(0, "", &comm), GQSGD_UNSUPPORTED,
         "not initialised");
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  expect("no communicator", gqsgd_comm_create_mpi(MPI_COMM_NULL, "", &comm), GQSGD_INVALID_ARGUMENT,
         "MPI_COMM_NULL");
  expect("no handle", gqsgd_comm_create_mpi_world("", nullptr), GQSGD_INVALID_ARGUMENT,
         "comm is NULL");
  expect("bad options", gqsgd_comm_create_mpi_world("speed=high", &comm), GQSGD_INVALID_ARGUMENT,
         "speed");
  if (level < MPI_THREAD_SERIALIZED) {
    std::thread([&] {
      expect("another thread", gqsgd_comm_create_mpi_world("", &comm), GQSGD_UNSUPPORTED,
             "MPI_THREAD_SERIALIZED");
    }).join();
  }
  expect_progress("this thread", true, 0);
  std::thread([] { expect_progress("another thread", true, GQSGD_MPI_WRONG_THREAD); }).join();
  expect("MPI_COMM_SELF",
         gqsgd_comm_create_mpi_f(static_cast<int32_t>(MPI_Comm_c2f(MPI_COMM_SELF)), "", &comm),
         GQSGD_OK, "");
  MPI_Finalize();
  expect_progress("after MPI_Finalize", false, GQSGD_MPI_FINALIZED);
  expect("after MPI_Finalize", gqsgd_comm_destroy(comm), GQSGD_OK, "");
  expect("after MPI_Finalize", gqsgd_comm_create_mpi_world("", &comm), GQSGD_UNSUPPORTED,
         "finalised");
  return g_failures == 0 ? 0 : 1;
}
