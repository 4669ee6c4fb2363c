// Any bytes as the payload of an answer that shares its signature: no crash, what is accepted
// encodes back to itself, and its way leads to a head.
#include "fuzz_target.h"

#include "wire_check.h"

// Stands for a hash: any function of the bytes will do here.
static void fold(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    for (size_t i = 0; i < WIRE_SHA256_BYTES; i++) {
        out->bytes[i] = (uint8_t)(size ^ ((const uint8_t *)bytes)[i % size]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wire_hasher hasher = {.sha256 = fold};
    struct wire_answer answer;
    uint8_t head[WIRE_ANSWER_HEAD_BYTES];
    (void)wire_check_answer(data, size);
    if (wire_answer_parse(data, size, &answer) == BASE_OK) {
        base_check(wire_answer_fold(&answer, &hasher, head) == BASE_OK);
    }
    return 0;
}
