// What a rank says of the machine that it runs on.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "src/transport/network/bootstrap/host_identity.h"
#include "tests/unit/transport/children.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
namespace {

/** As pods of a cluster have them; the system allows 64 letters. */
constexpr char kLongName[] = "training-of-a-model-with-a-long-name-worker-17-abcde";

TEST(HostIdentity, LongHostName_ShownFromItsBeginning) {
  Child child([]() -> std::string {
    // A host name of its own; users other than root need a user namespace for that.
    if (unshare(CLONE_NEWUTS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0) return "may not";
    if (sethostname(kLongName, sizeof kLongName - 1) != 0) return "may not";
    Hmac hmac;
    NetworkMember member;
    const Status opened = Hmac::open(&hmac);
    if (!opened.ok()) return text_of(opened);
    const Status identified = identify_host(hmac, "", &member);
    return identified.ok() ? std::string(member.host_name) : text_of(identified);
  });
  const std::string name = child.line();
  if (name == "may not") GTEST_SKIP() << "no namespace for host names here";
  EXPECT_EQ(name, std::string(kLongName).substr(0, sizeof NetworkMember::host_name - 1));
}

}  // namespace
}  // namespace gq::test
