// Making a group: bootstrap, engine, connections, in that order.
#include "src/transport/network/network.h"

#include <time.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/support/shown.h"
#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/network/bootstrap/host_identity.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "src/transport/network/bootstrap/network_id.h"
#include "src/transport/network/greetings.h"
#include "src/transport/network/network_transport.h"
#include "src/transport/process/descriptor_limit.h"

namespace gq {
namespace {

// Descriptors of one rank: a listener, an epoll, an eventfd, what UCX opens, and some connections
// that have not proved anything.
constexpr uint32_t kOwnDescriptors = 40;
// The death of a process reaches all ranks in less than this time.
constexpr int64_t kDeathMs = 500;
constexpr timespec kPause{0, 5000000};

Status check_size(uint32_t rank, uint32_t size) {
  if (size == 0 || size > kNetworkRanksMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "a group of a network has 1 to %u ranks, not %u",
                kNetworkRanksMax, size);
  }
  if (rank < size) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "rank %u of a group of %u: ranks are 0 to %u", rank, size,
              size - 1);
}

/** family 0 where the options leave it to the connection with rank 0. */
Status choose_own(const NetworkOptions& options, NetworkAddress* own) {
  if (options.interface.empty() && options.address.empty()) return Status();
  return find_own_address({options.interface.c_str(), options.address.c_str()}, own);
}

/** For each rank this transport's connection and those of UCX, of which there are twice as many for
 *  a moment: two ranks connect to each other at the same time, and one connection of each pair
 *  ends. UCX that gets none ends the process by an assertion, or loses the connection. */
uint32_t descriptors_needed(uint32_t size, uint32_t paths) {
  return kOwnDescriptors + (1 + 2 * paths) * size;
}

std::vector<uint32_t> number_nodes(const std::vector<NetworkMember>& members) {
  std::vector<uint32_t> nodes(members.size());
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    uint32_t first = 0;
    while (memcmp(members[first].node, members[rank].node, sizeof members[rank].node) != 0) ++first;
    nodes[rank] = first;
  }
  return nodes;
}

/** UCX knows its devices by names of their own. */
bool has_rdma() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return devices != std::filesystem::directory_iterator();
}

/** Where UCX has TCP alone it keeps to the interfaces by which members reach each other. By itself
 *  it takes any that is up, a bridge of containers for example, and what it chose on two machines
 *  may not be joined. */
Status choose_devices(const std::vector<NetworkMember>& members, std::string* devices) {
  if (has_rdma()) return Status();
  std::vector<NetworkAddress> hosts;
  for (const NetworkMember& member : members) hosts.push_back(member.address);
  std::vector<std::string> names;
  GQ_TRY(find_interfaces_to(hosts, &names));
  for (const std::string& name : names) *devices += (devices->empty() ? "" : ",") + name;
  return Status();
}

Status open_engine(const NetworkOptions& options, const NetworkToken& token,
                   const NetworkTable& table, std::unique_ptr<UcxEngine>* engine) {
  UcxOptions ucx;
  if (!options.ucx.empty()) ucx.library = options.ucx.c_str();
  ucx.paths = options.paths;
  GQ_TRY(choose_devices(table.members, &ucx.devices));
  return UcxEngine::open(ucx, token.rank, token.size, engine);
}

/** A rank that has just died cannot be connected to. That it has died comes by rank 0, which is
 *  another connection. */
bool fails_soon(const NetworkToken& token, NetworkBootstrap* bootstrap) {
  const uint64_t deadline_us = deadline_after_ms(kDeathMs);
  while (!bootstrap->has_failed()) {
    if (monotonic_us() >= deadline_us || token.deadline.is_over()) return false;
    nanosleep(&kPause, nullptr);
  }
  return true;
}

Status connect_engine(const EngineAddresses& addresses, const NetworkToken& token,
                      NetworkBootstrap* bootstrap, Greetings* greetings, UcxEngine* engine) {
  for (uint32_t peer = 0; peer < addresses.size(); ++peer) {
    if (peer == token.rank) continue;
    const Status connected = engine->connect(peer, addresses[peer].data(), addresses[peer].size());
    if (connected.ok()) continue;
    // If all fail, the reason comes at the conclusion.
    return fails_soon(token, bootstrap) ? Status() : connected;
  }
  return greetings->exchange(token, bootstrap, engine);
}

void log_formed(const NetworkToken& token, uint32_t tag, const NetworkTable& table,
                const UcxEngine& engine) {
  if (!is_logged(GQSGD_LOG_INFO)) return;
  const LogSubject subject{tag, token.rank};
  log_line(GQSGD_LOG_INFO, subject, "%s", Shown(engine.version(), Shown::kPathBytes).text());
  for (uint32_t peer = 0; peer < token.size; ++peer) {
    if (peer == token.rank) continue;
    const std::string by = engine.transports_to(peer);
    log_line(GQSGD_LOG_INFO, subject, "rank %u is on %s at %s, by %s", peer,
             Shown(table.members[peer].host_name).text(),
             AddressText(table.members[peer].address).text(), by.empty() ? "UCX" : by.c_str());
  }
}

/** A group of one rank has no other to connect with. */
class Alone final : public NetworkBootstrap {
 public:
  Status gather(Status own, const NetworkMember& bring, NetworkTable* table) override {
    GQ_TRY(own);
    table->members.assign(1, bring);
    return random_bytes(table->group_nonce, sizeof table->group_nonce);
  }
  Status connect(Status own, const std::vector<unsigned char>&,
                 EngineAddresses* engine_addresses) override {
    engine_addresses->resize(1);
    return own;
  }
  bool has_failed() override { return false; }
  Status conclude(Status own, NetworkLinks* links) override {
    links->resize(1);
    return own;
  }
};

/** From the bootstrap's table to a transport. */
Status form(const NetworkToken& token, const NetworkOptions& options, const NetworkTable& table,
            NetworkBootstrap* bootstrap, std::unique_ptr<HostTransport>* out) {
  Greetings greetings(token.size, options.paths);  // which the engine uses until it is destroyed
  NetworkGroup group;
  group.rank = token.rank;
  group.size = token.size;
  memcpy(&group.tag, table.group_nonce, sizeof group.tag);
  group.nodes = number_nodes(table.members);
  EngineAddresses addresses;
  const Status opened = open_engine(options, token, table, &group.engine);
  GQ_TRY(bootstrap->connect(
      opened, opened.ok() ? group.engine->address() : std::vector<unsigned char>(), &addresses));
  const Status connected =
      connect_engine(addresses, token, bootstrap, &greetings, group.engine.get());
  GQ_TRY(bootstrap->conclude(connected, &group.links));
  GQ_TRY(group.engine->set_connected());
  log_formed(token, group.tag, table, *group.engine);
  auto transport = std::make_unique<NetworkTransport>();
  GQ_TRY(transport->open(std::move(group)));
  *out = std::move(transport);
  return Status();
}

/** own: what has kept this rank from joining so far. */
Status join(NetworkToken* token, const NetworkOptions& options, Status own,
            std::unique_ptr<NetworkBootstrap>* bootstrap, NetworkTable* table) {
  NetworkMember member;
  if (own.ok()) own = identify_host(token->secret.hmac, options.host_id.c_str(), &member);
  if (own.ok()) {
    own = check_descriptor_limit(descriptors_needed(token->size, options.paths), token->size);
  }
  if (token->listener) member.address = local_address(token->listener->number());
  *bootstrap = token->size == 1 ? std::make_unique<Alone>() : open_network_bootstrap(token);
  return (*bootstrap)->gather(own, member, table);
}

/** Both ways to a group, with std::bad_alloc as a status. */
template <typename Make>
Status without_exceptions(uint32_t rank, uint32_t size, Make make) {
  GQ_TRY(check_size(rank, size));
  GQ_TRY(watch_forks());
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank, size);
  }
}

/** The group's name and key from a string; without one the key is known to all. */
Status derive_secret(const LaunchedGroup& group, GroupSecret* secret) {
  Digest digest;
  GQ_TRY(secret->hmac.digest(Digest(), group.secret.data(), group.secret.size(), &digest));
  AuthenticatedBytes purpose("gqsgd group secret");
  GQ_TRY(secret->hmac.digest(digest, purpose, &secret->key));
  AuthenticatedBytes job("gqsgd job");
  job.add(group.job.data(), group.job.size());
  GQ_TRY(secret->hmac.digest(Digest(), job, &digest));
  memcpy(secret->name, digest.bytes, sizeof secret->name);
  return Status();
}

/** Equal on all ranks, from what they know alone: it never travels. */
Status derive_process_id(const GroupSecret& secret, const NetworkTable& table,
                         gqsgd_unique_id* unique_id) {
  Digest name, key;
  AuthenticatedBytes named("gqsgd process group: name");
  named.add(table.group_nonce, sizeof table.group_nonce);
  GQ_TRY(secret.hmac.digest(secret.key, named, &name));
  AuthenticatedBytes keyed("gqsgd process group: secret");
  keyed.add(table.group_nonce, sizeof table.group_nonce);
  GQ_TRY(secret.hmac.digest(secret.key, keyed, &key));
  GQ_TRY(make_unique_id(unique_id));
  UniqueId id;
  memcpy(&id, unique_id->bytes, sizeof id);
  memcpy(id.name, name.bytes, sizeof id.name);
  memcpy(id.secret, key.bytes, sizeof id.secret);
  memcpy(unique_id->bytes, &id, sizeof id);
  return Status();
}

/** The others may reach rank 0 by an address of a gateway, which this machine does not have. */
void warn_of_another_machine(const LaunchedGroup& group,
                             const std::vector<NetworkAddress>& named) {
  for (NetworkAddress address : named) {
    address.port = 0;
    NetworkAddress own;
    if (find_own_address({"", AddressText(address).text()}, &own).ok()) return;
  }
  log_line(GQSGD_LOG_WARN,
           "%s=%s is no address of this machine, where rank 0 is: the others look for it there",
           group.root_meaning.c_str(), Shown(group.root.c_str()).text());
}

/** Rank 0 listens at all addresses of this machine, or at the one that the options name: how the
 *  others call it is theirs to know. */
Status listen_for_launched(const LaunchedGroup& group, NetworkToken* token) {
  NetworkAddress at = token->own;
  if (at.family == 0) {
    std::vector<NetworkAddress> named;
    GQ_TRY(resolve_host(group.root.c_str(), group.port, group.root_meaning.c_str(), &named));
    warn_of_another_machine(group, named);
    at.family = named[0].family;
  }
  at.port = group.port;
  NetworkAddress bound;
  GQ_TRY(listen_at(at, &token->listener, &bound));
  log_line(GQSGD_LOG_INFO, "rank 0 of %u listens at %s", group.size, AddressText(bound).text());
  return Status();
}

}  // namespace

Status create_network_id(const NetworkOptions& options, gqsgd_unique_id* unique_id) {
  NetworkAddress address;
  GQ_TRY(find_own_address({options.interface.c_str(), options.address.c_str()}, &address));
  address.port = static_cast<uint16_t>(options.port);
  return make_network_id(address, unique_id);
}

Status create_network(const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size,
                      const NetworkOptions& options, const Deadline& deadline,
                      std::unique_ptr<HostTransport>* out, const Status& own) {
  return without_exceptions(rank, size, [&] {
    NetworkId id;
    GQ_TRY(read_network_id(unique_id, &id));
    NetworkToken token;
    // First, so that whatever fails here closes it: others would wait for an answer.
    if (rank == 0) GQ_TRY(take_listener(id, &token.listener));
    GQ_TRY(Hmac::open(&token.secret.hmac));
    memcpy(token.secret.name, id.name, sizeof id.name);
    token.secret.key = id.key;
    token.rank = rank;
    token.size = size;
    token.deadline = deadline;
    token.root.assign(1, id.address);
    token.root_listens = true;
    const Status chosen = own.ok() ? choose_own(options, &token.own) : own;
    std::unique_ptr<NetworkBootstrap> bootstrap;
    NetworkTable table;
    GQ_TRY(join(&token, options, chosen, &bootstrap, &table));
    return form(token, options, table, bootstrap.get(), out);
  });
}

Status create_launched(const LaunchedGroup& group, const NetworkOptions& options,
                       int64_t timeout_ms, const Status& own, gqsgd_unique_id* process_id,
                       std::unique_ptr<HostTransport>* out) {
  return without_exceptions(group.rank, group.size, [&] {
    NetworkToken token;
    GQ_TRY(Hmac::open(&token.secret.hmac));
    GQ_TRY(derive_secret(group, &token.secret));
    token.rank = group.rank;
    token.size = group.size;
    token.deadline = Deadline(deadline_after_ms(timeout_ms));
    const std::string named = group.root_meaning + "=" + group.root;
    const std::string meaning = std::string(" (") + Shown(named.c_str()).text() + ")";
    token.root_meaning = meaning.c_str();
    const Status chosen = own.ok() ? choose_own(options, &token.own) : own;
    if (group.rank > 0) {
      GQ_TRY(resolve_host(group.root.c_str(), group.port, group.root_meaning.c_str(), &token.root));
    } else if (group.size > 1) {
      GQ_TRY(listen_for_launched(group, &token));
    }
    std::unique_ptr<NetworkBootstrap> bootstrap;
    NetworkTable table;
    GQ_TRY(join(&token, options, chosen, &bootstrap, &table));
    if (!is_process_group(table.members.data(), group.size)) {
      return form(token, options, table, bootstrap.get(), out);
    }
    return derive_process_id(token.secret, table, process_id);
  });
}

}  // namespace gq
