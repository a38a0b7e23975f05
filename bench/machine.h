// Says in one line each what a measurement ran on and how numbers are condensed; measures nothing.
#ifndef GQ_BENCH_MACHINE_H
#define GQ_BENCH_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gq::bench {

/** "AMD EPYC, 2 CPUs (1 for each process), Linux 6.1.0": processor, CPUs that are online and those
 *  that this process may run on, kernel. */
std::string machine();

/** Keeps the calling thread on one of the processors that it may use: the number-th, counting round
 *  and round. False if the system refuses. Threads that exist already stay where they are. */
bool bind_to_processor(int number);

/** Nanoseconds of a clock that processes of one machine share. */
int64_t now_ns();

/** Calls that one timed run makes, one after another, where one of them takes `call_ns`, which
 * ranks agree on: runs of short calls carry 8 MiB together, as far as 128 calls or 100 ms do. A
 * call alone would time how late its ranks left the barrier, and on a link that lets a burst
 * through at once no link at all. */
size_t calls_per_run(size_t size_bytes, double call_ns);

/** The middle of the values, or the mean of the two middle ones; 0 for none. */
double median(std::vector<double> values);

}  // namespace gq::bench

#endif
