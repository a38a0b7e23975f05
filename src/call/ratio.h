// A ratio of two counts as a line shows it: "3.88", with a point whatever the process's locale.
#ifndef GQ_CALL_RATIO_H
#define GQ_CALL_RATIO_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

namespace gq {

struct Ratio {
  char text[32];

  /** Rounded to hundredths; "1.00" of nothing. */
  Ratio(uint64_t numerator, uint64_t denominator) {
    const double exact =
        denominator == 0 ? 1 : static_cast<double>(numerator) / static_cast<double>(denominator);
    const uint64_t hundredths = static_cast<uint64_t>(100 * exact + 0.5);
    snprintf(text, sizeof text, "%" PRIu64 ".%02" PRIu64, hundredths / 100, hundredths % 100);
  }
};

}  // namespace gq

#endif
