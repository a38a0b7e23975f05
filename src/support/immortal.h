// Objects that are made as the library is loaded and never destroyed: threads may need them while
// the process exits.
#ifndef GQ_SUPPORT_IMMORTAL_H
#define GQ_SUPPORT_IMMORTAL_H

#include <new>

namespace gq {

template <typename Object>
class Immortal {
 public:
  static Object& get() { return *object_; }

 private:
  alignas(Object) static inline unsigned char place_[sizeof(Object)];
  // Made when the library is loaded: at a first use a thread could be making it while another one
  // forks, and the child would wait for that thread.
  static inline Object* const object_ = new (place_) Object;
};

/** The one Object of this process. Its memory is the library's own, so that a program that is short
 *  of memory can still load the library. */
template <typename Object>
Object& immortal() {
  return Immortal<Object>::get();
}

}  // namespace gq

#endif
