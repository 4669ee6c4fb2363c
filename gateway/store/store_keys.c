// Keys and names of the store's tables. Pure functions, any thread; called by the files of the
// store and by all of svc that keep records. Numbers stand in a key most significant byte first,
// behind a byte of version, so that the order of bytes, in which LMDB walks, is the order of
// numbers. Which tables can do without a damaged record is said here too.
#include "store/store.h"

#include "base/check.h"

#include <string.h>

const char *gw_table_name(enum gw_table table)
{
    static const char *const names[GW_TABLE_COUNT] = {
#define GW_TABLE_TEXT(name, text) [GW_TABLE_##name] = text,
        GW_TABLE_MAP(GW_TABLE_TEXT)
#undef GW_TABLE_TEXT
    };
    return (unsigned)table < GW_TABLE_COUNT ? names[table] : "unknown";
}

bool gw_table_spares(enum gw_table table)
{
    switch (table) {
    case GW_TABLE_BLOBS:
    case GW_TABLE_DEVICES:
    case GW_TABLE_OUTCOMES:
    case GW_TABLE_PAST:
    case GW_TABLE_IDEMPOTENCY:
    case GW_TABLE_CAUSES:
    case GW_TABLE_USERS:
    case GW_TABLE_TUNNEL_DICTS:
        return true;
    default:
        return false;
    }
}

static void put_u64(struct gw_key *key, uint64_t value)
{
    base_assert(key->size + sizeof(value) <= sizeof(key->bytes));
    for (int shift = 56; shift >= 0; shift -= 8) {
        key->bytes[key->size++] = (uint8_t)(value >> shift);
    }
}

static struct gw_key key_begin(void)
{
    struct gw_key key;
    key.bytes[0] = GW_STORE_KEY_VERSION;
    key.size = 1;
    return key;
}

struct gw_key gw_key_u64(uint64_t id)
{
    struct gw_key key = key_begin();
    put_u64(&key, id);
    return key;
}

struct gw_key gw_key_u64_u64(uint64_t a, uint64_t b)
{
    struct gw_key key = gw_key_u64(a);
    put_u64(&key, b);
    return key;
}

_Static_assert(1 + 8 + WIRE_SHA256_BYTES <= GW_STORE_KEY_MAX, "the longest of the keys below");

struct gw_key gw_key_sha(const struct wire_sha256 *digest)
{
    struct gw_key key = key_begin();
    memcpy(key.bytes + key.size, digest->bytes, WIRE_SHA256_BYTES);
    key.size += WIRE_SHA256_BYTES;
    return key;
}

struct gw_key gw_key_u64_sha(uint64_t a, const struct wire_sha256 *digest)
{
    struct gw_key key = gw_key_u64(a);
    memcpy(key.bytes + key.size, digest->bytes, WIRE_SHA256_BYTES);
    key.size += WIRE_SHA256_BYTES;
    return key;
}

struct gw_key gw_key_text(const char *text)
{
    struct gw_key key = key_begin();
    size_t size = strnlen(text, GW_STORE_KEY_MAX - 1);
    base_assert(text[size] == '\0'); // one that is cut is another's
    memcpy(key.bytes + 1, text, size);
    key.size += size;
    return key;
}

bool gw_key_read_u64(const uint8_t *key, size_t size, uint32_t index, uint64_t *out)
{
    size_t at = 1 + (size_t)index * 8;
    if (size < at + 8 || key[0] != GW_STORE_KEY_VERSION) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++) {
        value = value << 8 | key[at + i];
    }
    *out = value;
    return true;
}
