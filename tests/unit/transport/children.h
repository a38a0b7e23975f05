// Child processes that run one function each and hand back one line. What they do is the test's
// business.
#ifndef GQ_TESTS_UNIT_TRANSPORT_CHILDREN_H
#define GQ_TESTS_UNIT_TRANSPORT_CHILDREN_H

#include <sys/types.h>

#include <functional>
#include <string>

namespace gq::test {

/** A byte that one process sends and another waits for; made before the fork. */
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void send();
  /** False if no child sent within a minute. */
  bool wait();

 private:
  int ends_[2];
};

/** Killed with its parent, by its destructor, and after a minute whatever it does. */
class Child {
 public:
  explicit Child(const std::function<std::string()>& body);
  ~Child();
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const;
  /** Its line; or "killed by signal 9", "exited with 3" if it did not finish its function. */
  std::string line();

 private:
  pid_t process_ = -1;
  int result_ = -1;
};

}  // namespace gq::test

#endif
