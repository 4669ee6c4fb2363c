// Marks: the active version is activated once more.
#ifndef DEV_DEVICE_AGAIN_H
#define DEV_DEVICE_AGAIN_H

#include "core/base/runtime.h"
#include "wire/trust/offer.h"

// The marks of a check-in's answer, after its offers. `all`: the answer was complete, so a mark
// that it does not repeat was withdrawn.
void dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count,
                    bool all);
// Is there one among the marks that would be followed?
bool dev_again_news(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count);

#endif
