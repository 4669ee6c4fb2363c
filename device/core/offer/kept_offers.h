// What a director's answer offered or marked and metadata was missing for. It is kept until that is
// here, and then judged again instead of being asked for again.
#ifndef DEV_KEPT_OFFERS_H
#define DEV_KEPT_OFFERS_H

#include "core/base/runtime.h"
#include "wire/trust/offer.h"

// Of the envelopes that wait: three statements as they usually are. More are asked for again.
#define DEV_KEPT_BYTES_MAX 1536

// In the caller's memory, with a root. Nothing of it is stored: after a boot the device asks.
struct dev_kept_offers {
    uint16_t size; // bytes in use
    uint8_t mark_count;
    bool judging; // they are being judged again
    bool again;   // the answer is not here whole, or holds no more: only another question helps
    uint8_t bytes[DEV_KEPT_BYTES_MAX]; // of each: u8 flags, u16 size, envelope
    struct wire_again marks[WIRE_AGAIN_MAX];
};

void dev_kept_init(struct dev_runtime *runtime); // at boot: nothing is kept
// Another question goes out, or the answer did not come whole: nothing is kept.
void dev_kept_drop(struct dev_runtime *runtime);
// An envelope of the answer waits for metadata. `bytes` may be what was kept.
void dev_kept_wait(struct dev_runtime *runtime, const uint8_t *bytes, size_t size, uint8_t flags);
void dev_kept_wait_mark(struct dev_runtime *runtime, const struct wire_again *mark);
// Something of the answer cannot be followed. True: it was judged again, so it is not told: the
// device asks, and the answer to that is told.
bool dev_kept_refused(struct dev_runtime *runtime);
// A version began or ended: the answer is about what was there before.
void dev_kept_moved(struct dev_runtime *runtime);
// Metadata is here: judges all that is kept. False: the device is to ask.
BASE_NODISCARD bool dev_kept_judge(struct dev_runtime *runtime);

#endif
