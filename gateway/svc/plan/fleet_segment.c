// Naming segments. Called when a cohort is computed for a release that has some in quarantine, and
// when a device completes. That is cohort_compile.c through release_codec.c, and record_edit.c and
// tally.c. A segment is a hash of model, system and app version, with a text for people on demand;
// a device that says none of them is in no segment (0). Pure, any thread.
#include "svc/plan/fleet_segment.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {"model", "os", "app_version"};

static const struct pol_attr *find(const struct pol_attrs *attrs, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 0; i < attrs->count; i++) {
        const struct pol_attr *attr = &attrs->items[i];
        if (attr->name.size == size && memcmp(attr->name.data, name, size) == 0 &&
            attr->value.type == POL_TYPE_STRING) {
            return attr;
        }
    }
    return NULL;
}

uint64_t gw_segment_of(const struct pol_attrs *attrs, char *text)
{
    uint64_t hash = 1;
    size_t size = 0;
    bool any = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pol_attr *attr = find(attrs, names[i]);
        hash = hash * 31 + i;
        if (attr != NULL) {
            hash = base_hash64_seed(attr->value.text.data, attr->value.text.size, hash);
            any = true;
        }
        if (text != NULL && size < GW_SEGMENT_TEXT_MAX) {
            int more = attr == NULL ? snprintf(text + size, GW_SEGMENT_TEXT_MAX + 1 - size,
                                               "%sno %s", i > 0 ? " " : "", names[i])
                                    : snprintf(text + size, GW_SEGMENT_TEXT_MAX + 1 - size,
                                               "%s%s=%.*s", i > 0 ? " " : "", names[i],
                                               (int)attr->value.text.size, attr->value.text.data);
            size += more > 0 ? (size_t)more : 0;
        }
    }
    if (text != NULL && !any) {
        text[0] = 0;
    }
    return any ? (hash != 0 ? hash : 1) : 0;
}
