// Offers that wait for metadata. A device hears of a version and of newer metadata in one answer;
// it brings the metadata and judges the offers of that answer once more, signatures and all, as if
// they had come just now. So one check-in is enough.
//
// What was kept may only be followed, never refused: where anything of it does not hold any more,
// or the answer itself does not (dev_trust_resume), it is dropped without a word, and the device
// asks again. Called by the judges of offers and marks, and by control.
#include "core/offer/kept_offers.h"

#include "core/offer/device_again.h"
#include "core/offer/device_offer.h"
#include "core/trust/device_trust.h"

#include "base/check.h"

#include <string.h>

#define HEAD_BYTES 3

_Static_assert(HEAD_BYTES + WIRE_STATEMENT_BYTES_MAX <= DEV_KEPT_BYTES_MAX, "one fits");

void dev_kept_init(struct dev_runtime *runtime)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept != NULL) {
        kept->size = 0;
        kept->mark_count = 0;
        kept->judging = false;
        kept->again = false;
    }
}

void dev_kept_drop(struct dev_runtime *runtime)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept != NULL) {
        base_assert(!kept->judging);
        kept->size = 0;
        kept->mark_count = 0;
        kept->again = false;
    }
}

void dev_kept_wait(struct dev_runtime *runtime, const uint8_t *bytes, size_t size, uint8_t flags)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept == NULL) {
        return;
    }
    base_check(kept->size <= DEV_KEPT_BYTES_MAX);
    size_t room = (size_t)(DEV_KEPT_BYTES_MAX - kept->size);
    if (room < HEAD_BYTES || size > room - HEAD_BYTES) {
        kept->again = true;
        return;
    }
    uint8_t *out = kept->bytes + kept->size;
    memmove(out + HEAD_BYTES, bytes, size); // first: the head may be where the envelope was
    out[0] = flags;
    out[1] = (uint8_t)size;
    out[2] = (uint8_t)(size >> 8);
    kept->size = (uint16_t)(kept->size + HEAD_BYTES + size);
}

void dev_kept_wait_mark(struct dev_runtime *runtime, const struct wire_again *mark)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept != NULL) {
        base_check(kept->mark_count < WIRE_AGAIN_MAX);
        kept->marks[kept->mark_count++] = *mark;
    }
}

bool dev_kept_refused(struct dev_runtime *runtime)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept == NULL) {
        return false;
    }
    kept->again = true;
    return kept->judging;
}

void dev_kept_moved(struct dev_runtime *runtime)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept != NULL && !kept->judging) {
        kept->again = true;
    }
}

// What waits still is kept again, at most where it was.
static void offers_judge(struct dev_runtime *runtime, struct dev_kept_offers *kept)
{
    size_t end = kept->size;
    kept->size = 0;
    for (size_t at = 0; at < end && !kept->again;) {
        uint8_t flags = kept->bytes[at];
        size_t size = (size_t)(kept->bytes[at + 1] | kept->bytes[at + 2] << 8);
        base_check(size <= end - at - HEAD_BYTES);
        dev_offer_take(runtime, kept->bytes + at + HEAD_BYTES, size, flags, true);
        at += HEAD_BYTES + size;
    }
}

static void marks_judge(struct dev_runtime *runtime, struct dev_kept_offers *kept)
{
    uint32_t count = kept->mark_count;
    kept->mark_count = 0;
    for (uint32_t i = 0; i < count && !kept->again; i++) {
        const struct wire_again mark = kept->marks[i];
        dev_again_take(runtime, &mark, 1, false);
    }
}

bool dev_kept_judge(struct dev_runtime *runtime)
{
    struct dev_kept_offers *kept = runtime->kept_offers;
    if (kept == NULL || (kept->size == 0 && kept->mark_count == 0) || kept->again ||
        !dev_trust_resume(runtime)) {
        dev_kept_drop(runtime);
        return false;
    }
    kept->judging = true;
    offers_judge(runtime, kept);
    marks_judge(runtime, kept);
    kept->judging = false;
    dev_trust_rest(runtime);
    bool held = !kept->again;
    if (!held) {
        dev_kept_drop(runtime);
    }
    return held;
}
