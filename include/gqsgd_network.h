/* Communicators between machines: docs/TRANSPORTS.md, "Network".
 *
 * Every rank has a TCP connection to every other one, which carries what ranks must know of each
 * other: who belongs to the group, who has died, who aborted. Packed codes travel over UCX, by the
 * fastest network that it finds (InfiniBand, RoCE, TCP, shared memory). Calls work on host memory.
 * UCX 1.13 or later is opened while the program runs and never linked: the file that the option
 * ucx=FILE or GQSGD_UCX_LIBRARY names, else libucp.so.0 as the loader finds it. libcrypto (OpenSSL)
 * is opened in the same way for the proof that a rank knows the group's secret, which itself never
 * travels. Whatever is missing is UNSUPPORTED with a sentence that says how to install it.
 * SECURITY.md says what is protected, and what is not: nothing is encrypted.
 *
 * A rank that dies is PEER_LOST on all others within a second, an abort is seen by all that wait at
 * once, and a rank that is cut off is named when timeout_ms has passed. gqsgd_comm_destroy waits
 * for no rank. Ranks that exit right after a call returned OK cost no other rank its result.
 *
 * Beside the other options (gqsgd.h, Communicators) those of a network are
 *    interface=NAME   the network interface whose address this process gives to the others; else
 *                     GQSGD_INTERFACE; else the one by which rank 0 is reached, and for the id the
 *                     first that is up and no loopback
 *    address=HOST     an address or name of this machine instead; for the id else GQSGD_ADDRESS
 *    port=N           where the id listens, 0 for any that is free
 *    host_id=NAME     ranks with equal names are on one node, for HIERARCHICAL and AUTO; else
 *                     GQSGD_HOST_ID; else ranks of one boot of one machine are
 *    paths=N          connections of UCX to each other rank, 1 to 16, the same on all; else 1.
 *                     Messages take them in turn: for links that one connection does not fill, as
 *                     between machines of clouds that limit each
 *    ucx=FILE         the UCX to use */
#ifndef GQSGD_NETWORK_H
#define GQSGD_NETWORK_H

#include "gqsgd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A fresh name, secret and address for one group between machines. The process that makes it is
 *  rank 0, and listens at that address from then on, until the group has formed or failed.
 *  Give the id to all ranks, by a channel that no other user can read: it has the secret.
 *  options  as for the communicator; timeout_ms is not used
 *  INVALID_ARGUMENT for an interface that is not there or has no address, an address that is no
 *  address of this machine, or that no other machine reaches; NO_RESOURCE for a port in use. */
gqsgd_status gqsgd_network_id_create(const char *options, gqsgd_unique_id *unique_id);

/** Joins a group of `size` processes on any machines as rank `rank`; returns when all are there and
 *  connected. TIMEOUT names the ranks that are missing. What keeps one rank from joining, an
 *  option that it is refused for example, is REMOTE_ERROR on those that are there or come within
 *  half a second. No rank learns of a process that does not know the secret (INVALID_ARGUMENT),
 *  claims a rank that is taken (DUPLICATE_RANK) or cannot reach rank 0. Option nodes of another
 *  length than the group is REMOTE_ERROR in the others' first call. */
gqsgd_status gqsgd_comm_create_network(const gqsgd_unique_id *unique_id, int32_t rank, int32_t size,
                                       const char *options, gqsgd_comm *comm);

/** The same from what torchrun, mpirun, mpiexec or srun have put into the environment:
 *  docs/TRANSPORTS.md has the variables and their precedence. Processes of one user on one machine
 *  get the transport of gqsgd_comm_create_process, others that of gqsgd_comm_create_network.
 *  GQSGD_SECRET, equal on all ranks, is the group's secret; without it every process that reaches
 *  rank 0's port can join, which the log says.
 *  INVALID_ARGUMENT names the variable that is missing or wrong, and its value. */
gqsgd_status gqsgd_comm_create_env(const char *options, gqsgd_comm *comm);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
