// Tenants: a short list that only grows. Changed on the control thread, read by any.
//
//   tenant row := u8 version(1), u64 created_s, u8 size, name
#include "svc/access/operators_private.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

#define ROW_VERSION 1
#define ROW_MAX     64

uint32_t gw_tenant_share(uint16_t tenant, uint32_t max, uint32_t others)
{
    uint32_t left = max > others ? max - others : 0;
    bool whole = tenant == GW_TENANT_DEFAULT || tenant == GW_TENANT_EVERY;
    return whole ? left : (left + GW_TENANT_SHARE_PART - 1) / GW_TENANT_SHARE_PART;
}

enum base_status gw_tenant_may_add(const struct gw_tenant_holding *holding,
                                   struct base_error *error)
{
    uint32_t others = holding->all - holding->own;
    if (holding->all >= holding->max) {
        return base_error_set(error, BASE_ERR_LIMIT, "there are %u %s, the most there may be",
                              holding->all, holding->what);
    }
    if (holding->own >= gw_tenant_share(holding->tenant, holding->max, others)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "the tenant has %u %s, the most it may have: half of what the other "
                              "tenants leave of %u",
                              holding->own, holding->what, holding->max);
    }
    return BASE_OK;
}

bool gw_tenant_name_ok(struct base_str name)
{
    return name.size <= GW_TENANT_NAME_MAX && wire_task_name_ok(name) &&
           memchr(name.data, '/', name.size) == NULL;
}

struct load {
    struct gw_core *core;
    bool ok;
};

static bool load_tenant(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct gw_operators *operators = load->core->operators;
    struct gw_tenant tenant = {0};
    struct base_reader reader;
    uint64_t id = 0;
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    tenant.created_s = base_reader_u64(&reader);
    size_t size = base_reader_u8(&reader);
    load->ok = version == ROW_VERSION && size <= GW_TENANT_NAME_MAX;
    if (load->ok) {
        base_reader_copy(&reader, tenant.name, size);
    }
    load->ok = load->ok && base_reader_finish(&reader) == BASE_OK &&
               gw_tenant_name_ok(base_str_of(tenant.name)) &&
               gw_key_read_u64(key.data, key.size, 0, &id) && id == operators->tenant_count &&
               id < GW_TENANTS_MAX;
    if (load->ok) {
        tenant.id = (uint16_t)id;
        operators->tenants[operators->tenant_count++] = tenant;
    }
    return load->ok;
}

enum base_status gw_tenants_load(struct gw_core *core, struct gw_store_read *read)
{
    struct load load = {.core = core, .ok = true};
    struct gw_key from = gw_key_u64(0);
    BASE_TRY(gw_store_read_scan(read, GW_TABLE_TENANTS, &from, load_tenant, &load));
    return load.ok ? BASE_OK : BASE_ERR_CORRUPT;
}

// With the lock held; NULL: there is none.
static const struct gw_tenant *find(const struct gw_operators *operators, struct base_str name)
{
    for (uint32_t i = 0; i < operators->tenant_count; i++) {
        if (base_str_equal(base_str_of(operators->tenants[i].name), name)) {
            return &operators->tenants[i];
        }
    }
    return NULL;
}

enum base_status gw_tenant_create(struct gw_core *core, struct base_str name, struct gw_tenant *out,
                                  bool *out_created, struct base_error *error)
{
    struct gw_operators *operators = core->operators;
    uint8_t row[ROW_MAX];
    struct base_writer writer;
    if (!gw_tenant_name_ok(name)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "name: 1 to %u of a-z 0-9 . _ -, the first a letter or digit",
                              GW_TENANT_NAME_MAX);
    }
    const struct gw_tenant *known = find(operators, name);
    if (known != NULL) {
        *out = *known;
        *out_created = false;
        return BASE_OK;
    }
    if (operators->tenant_count == GW_TENANTS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "there are %u tenants, the most there may be",
                              GW_TENANTS_MAX);
    }
    struct gw_tenant tenant = {.id = (uint16_t)operators->tenant_count,
                               .created_s = gw_core_now_s(core)};
    memcpy(tenant.name, name.data, name.size);
    base_writer_init(&writer, row, sizeof(row));
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u64(&writer, tenant.created_s);
    base_writer_u8(&writer, (uint8_t)name.size);
    base_writer_bytes(&writer, name.data, name.size);
    enum base_status status = gw_operators_put(core, GW_TABLE_TENANTS, gw_key_u64(tenant.id), row,
                                               base_writer_size(&writer));
    if (status != BASE_OK) {
        return base_error_set(error, status, "the tenant could not be stored: %s",
                              base_status_text(status));
    }
    pthread_mutex_lock(&operators->lock);
    operators->tenants[operators->tenant_count++] = tenant;
    pthread_mutex_unlock(&operators->lock);
    *out = tenant;
    *out_created = true;
    return BASE_OK;
}

bool gw_tenant_find(struct gw_core *core, struct base_str name, uint16_t *out_id)
{
    struct gw_operators *operators = core->operators;
    pthread_mutex_lock(&operators->lock);
    const struct gw_tenant *tenant = find(operators, name);
    if (tenant != NULL) {
        *out_id = tenant->id;
    }
    pthread_mutex_unlock(&operators->lock);
    return tenant != NULL;
}

void gw_tenant_name(struct gw_core *core, uint16_t id, char out[GW_TENANT_NAME_MAX + 1])
{
    struct gw_operators *operators = core->operators;
    pthread_mutex_lock(&operators->lock);
    const char *name = id < operators->tenant_count ? operators->tenants[id].name : "unknown";
    memcpy(out, name, strlen(name) + 1);
    pthread_mutex_unlock(&operators->lock);
}

void gw_tenant_list(struct gw_core *core, int32_t after, struct gw_tenant *out,
                    struct gw_page *page)
{
    base_assert(after >= -1);
    const struct gw_operators *operators = core->operators;
    uint32_t limit = gw_page_room(page);
    uint32_t count = 0;
    uint32_t at = (uint32_t)(after + 1);
    while (at < operators->tenant_count && count < limit) {
        out[count++] = operators->tenants[at++];
    }
    page->count = count;
    page->more = at < operators->tenant_count;
}
