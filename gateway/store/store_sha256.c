// SHA-256 of whole buffers, by OpenSSL. Any thread.
#include "store/store.h"

#include <openssl/sha.h>

void gw_sha256(const void *bytes, size_t size, struct wire_sha256 *out)
{
    SHA256(bytes, size, out->bytes);
}
