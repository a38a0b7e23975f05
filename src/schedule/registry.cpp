// The schedules that are built, by number.
#include "src/schedule/make.h"

namespace gq {
namespace {

constexpr const Schedule* kSchedules[] = {&kRing,         &kTree,   &kButterfly, &kDirect,
                                          &kHierarchical, &kNative, &kSparse};

}  // namespace

const Schedule* schedule_by_id(int32_t id) {
  for (const Schedule* schedule : kSchedules) {
    if (schedule->id == id) return schedule;
  }
  return nullptr;
}

}  // namespace gq
