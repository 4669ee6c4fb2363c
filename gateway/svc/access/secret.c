// Making, hashing and comparing secrets. Pure but for the port of randomness; any thread. Called
// where secrets are made and checked: operators.c, credentials.c, console_login.c, enroll.c,
// access.c. A text has four letters in front that say what it opens, so one kind is never taken for
// another; only its SHA-256 is kept, and hashes are compared in constant time.
#include "svc/access/secret.h"

#include "store/store.h"

#include <string.h>

#define PREFIX_BYTES 4u

enum base_status gw_secret_make(const struct base_random_port *random, const char *prefix,
                                char out_text[GW_SECRET_TEXT_BYTES + 1])
{
    uint8_t bytes[GW_SECRET_BYTES];
    if (random->next == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof(bytes); i += sizeof(uint64_t)) {
        uint64_t draw = random->next(random->ctx);
        memcpy(bytes + i, &draw, sizeof(draw));
    }
    memcpy(out_text, prefix, PREFIX_BYTES);
    size_t size = base_b64_encode(bytes, sizeof(bytes), out_text + PREFIX_BYTES);
    out_text[PREFIX_BYTES + size] = '\0';
    return BASE_OK;
}

bool gw_secret_hash(struct base_str text, const char *prefix, struct wire_sha256 *out)
{
    if (text.size != GW_SECRET_TEXT_BYTES || memcmp(text.data, prefix, PREFIX_BYTES) != 0) {
        return false;
    }
    gw_sha256(text.data, text.size, out);
    return true;
}

bool gw_secret_equal(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    unsigned differ = 0;
    for (size_t i = 0; i < size; i++) {
        differ |= (unsigned)(x[i] ^ y[i]);
    }
    return differ == 0;
}
