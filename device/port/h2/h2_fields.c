// What a connection remembers of the fields it sent, to decide which are worth a place in its
// compression table. Called by h2_codec.c for each field of a request, on the thread of the event
// base. It only advises: whatever it says, the peer gets the same fields.
#include "h2_fields.h"

#include "base/check.h"
#include "base/hash.h"

_Static_assert(H2_FIELDS_NAMES_MAX <= 32, "`varies` has a bit for each");

// A header table outlives the request, and what proxies do with theirs nobody knows.
static bool is_secret(struct base_str name)
{
    return base_str_equal(name, BASE_STR("walle-credential")) ||
           base_str_equal(name, BASE_STR("authorization")) ||
           base_str_equal(name, BASE_STR("walle-enroll-key"));
}

static uint32_t hash_of(struct base_str text)
{
    return (uint32_t)base_hash64(text.data, text.size);
}

static bool first_seen(struct h2_fields *fields, struct h2_field_seen field)
{
    if (fields->count == H2_FIELDS_NAMES_MAX) {
        return false;
    }
    fields->seen[fields->count++] = field;
    return true;
}

void h2_fields_request(struct h2_fields *fields)
{
    fields->requests += fields->requests < H2_FIELDS_BUSY ? 1 : 0;
}

bool h2_fields_index(struct h2_fields *fields, struct base_str name, struct base_str value)
{
    base_assert(fields->count <= H2_FIELDS_NAMES_MAX);
    base_assert(fields->requests > 0);
    if (fields->requests < H2_FIELDS_BUSY || value.size > H2_FIELDS_VALUE_MAX || is_secret(name)) {
        return false;
    }
    const struct h2_field_seen field = {hash_of(name), hash_of(value)};
    uint32_t at = 0;
    while (at < fields->count && fields->seen[at].name != field.name) {
        at++;
    }
    if (at == fields->count) {
        return first_seen(fields, field);
    }
    if (fields->seen[at].value != field.value) {
        fields->varies |= 1u << at;
    }
    return (fields->varies >> at & 1u) == 0;
}
