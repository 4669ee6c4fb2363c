// Any bytes as an answer to a check-in: the streaming reader agrees with the wire's reader,
// whatever the pieces.
#include "fuzz_target.h"

#include "core/offer/offers_stream.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"

static void marks_add(const struct wire_again *marks, uint32_t count, uint64_t *inout_sum)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t facts[] = {marks[i].task_id, marks[i].rollout_id, marks[i].attempt};
        *inout_sum = base_hash64_seed(facts, sizeof facts, *inout_sum);
    }
}

static bool stream_read(const uint8_t *data, size_t size, size_t chunk, uint64_t *out_sum,
                        uint32_t *out_count)
{
    struct dev_offers_stream stream;
    dev_offers_start(&stream);
    uint64_t next = 0; // of the bytes of metadata
    *out_sum = 0;
    *out_count = 0;
    for (size_t at = 0; at < size;) {
        size_t step = chunk < size - at ? chunk : size - at;
        bool ready = false;
        bool metadata = dev_offers_is_metadata(&stream);
        size_t taken = dev_offers_feed(&stream, data + at, step, &ready);
        base_check(taken > 0);
        base_check(taken <= step);
        for (size_t i = 0; metadata && i < taken; i++) {
            next = base_mix64(next ^ data[at + i]);
        }
        at += taken;
        if (ready) {
            base_check(stream.size <= DEV_OFFERS_ENVELOPE_MAX);
            *out_sum = base_hash64_seed(stream.bytes, stream.size, *out_sum);
            (*out_count)++;
        }
    }
    struct wire_again marks[WIRE_AGAIN_MAX];
    marks_add(marks, dev_offers_again(&stream, marks), out_sum);
    *out_sum ^= dev_offers_complete(&stream) ? next : 0;
    return dev_offers_complete(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t sums[2];
    uint32_t counts[2];
    bool whole = stream_read(data, size, size > 0 ? size : 1, &sums[0], &counts[0]);
    bool pieces = stream_read(data, size, 3, &sums[1], &counts[1]);
    base_check(whole == pieces);
    base_check(sums[0] == sums[1]);
    base_check(counts[0] == counts[1]);
    struct wire_offers offers;
    base_check(whole == (wire_offers_parse(data, size, &offers) == BASE_OK));
    if (whole) {
        uint64_t sum = 0;
        base_check(offers.count == counts[0]);
        for (uint32_t i = 0; i < offers.count; i++) {
            sum = base_hash64_seed(offers.items[i].envelope, offers.items[i].envelope_bytes, sum);
        }
        marks_add(offers.again, offers.again_count, &sum);
        uint64_t next = 0;
        for (size_t i = 0; i < offers.metadata.size; i++) {
            next = base_mix64(next ^ offers.metadata.data[i]);
        }
        base_check((sum ^ next) == sums[0]);
    }
    return 0;
}
