// Objects that are made at their first use and never destroyed: threads may need them while the
// process exits.
#ifndef GQ_SUPPORT_IMMORTAL_H
#define GQ_SUPPORT_IMMORTAL_H

#include <new>

namespace gq {

/** The one Object of this process. Its memory is the library's own, so that a first use that finds
 *  no memory does not throw. */
template <typename Object>
Object& immortal() {
  alignas(Object) static unsigned char place[sizeof(Object)];
  static Object* const object = new (place) Object;
  return *object;
}

}  // namespace gq

#endif
