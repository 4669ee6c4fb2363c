// May this statement be followed, and if so, what is to be done?
#ifndef DEV_DEVICE_OFFER_H
#define DEV_DEVICE_OFFER_H

#include "core/base/runtime.h"

// What was followed, and the versions that came of it; has no turn.
extern const struct dev_part dev_offer_part;
// Judges one envelope and, when it may be followed, notes what to do in the task's record. Refusals
// are reported once.
// With WIRE_OFFER_FLAG_RETRY among the answer's `flags` a version that failed here may be tried
// again. `asked`: it came in the answer to a check-in; what leads back or stops comes in no other
// way, and elsewhere only makes the device check in.
void dev_offer_take(struct dev_runtime *runtime, const uint8_t *envelope, size_t size,
                    uint8_t flags, bool asked);
// An order is refused: reported once. `outcome` names what it is about; kind, code and detail are
// filled in.
void dev_offer_refuse(struct dev_runtime *runtime, uint64_t mark, enum base_status status,
                      struct wire_outcome *outcome);
// A check-in begins: nothing has been offered by it.
void dev_offers_none(struct dev_runtime *runtime);
// A check-in was answered in full. An offer stands as long as check-ins repeat it: what is being
// pulled for an INSTALL that was not offered again is given up; where one came into place while the
// answer was under way, the device asks again. With WIRE_OFFER_FLAG_SHADOWS among `flags` the
// shadows that were not offered are over.
void dev_offers_withdrawn(struct dev_runtime *runtime, uint8_t flags);

#endif
