// Any text as base64url: what decodes encodes back to itself, and any bytes survive encoding and
// decoding.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static void decode_then_encode(const uint8_t *data, size_t size)
{
    struct base_str text = {(const char *)data, size};
    size_t capacity = BASE_B64_DECODED_MAX(size);
    uint8_t *bytes = malloc(capacity + 1);
    char *again = malloc(size + 1);
    base_check(bytes != NULL);
    base_check(again != NULL);
    size_t decoded = 0;
    if (base_b64_decode(text, bytes, capacity, &decoded) == BASE_OK) {
        base_check(BASE_B64_ENCODED(decoded) == size);
        base_check(base_b64_encode(bytes, decoded, again) == size);
        base_check(size == 0 || memcmp(again, data, size) == 0);
    }
    free(again);
    free(bytes);
}

static void encode_then_decode(const uint8_t *data, size_t size)
{
    size_t encoded = BASE_B64_ENCODED(size);
    char *text = malloc(encoded + 1);
    uint8_t *bytes = malloc(size + 1);
    base_check(text != NULL);
    base_check(bytes != NULL);
    base_check(base_b64_encode(data, size, text) == encoded);
    size_t decoded = 0;
    struct base_str view = {text, encoded};
    base_check(base_b64_decode(view, bytes, size, &decoded) == BASE_OK);
    base_check(decoded == size);
    base_check(size == 0 || memcmp(bytes, data, size) == 0);
    free(bytes);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode_then_encode(data, size);
    encode_then_decode(data, size);
    return 0;
}
