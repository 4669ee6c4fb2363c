// Views of devices, from the record in the store and what is newer in memory. Control thread.
// api_devices.c and gateway/ddi ask for them. What the table has not written yet is merged over the
// stored row, so an operator sees what the next flush will write.
#include "svc/rollout/device_views.h"

#include "svc/access/credentials.h"
#include "svc/core_private.h"
#include "svc/device/causes.h"
#include "svc/device/device_record.h"
#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"
#include "svc/rollout/catalog_private.h"
#include "svc/tally/tally.h"

#include <string.h>

static void view_outcome(struct gw_core *core, const struct gw_record_outcome *outcome,
                         struct gw_device_view *out)
{
    struct gw_device_outcome *to = &out->outcomes[out->outcome_count++];
    struct gw_tally_rollout known = {.shadow = false};
    (void)gw_tally_find(core->tally, outcome->rollout_id, &known);
    uint64_t id = known.shadow ? gw_shadow_key(outcome->rollout_id) : outcome->rollout_id;
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    *to = (struct gw_device_outcome){
        .rollout_id = id,
        .shadow = known.shadow,
        .fingerprint = outcome->fingerprint,
        .offered_s = outcome->offered_s,
        .updated_s = outcome->updated_s,
        .stage = outcome->stage,
        .tries = outcome->tries,
        .bits = outcome->bits,
        .last_kind = outcome->last_kind,
        .figures = outcome->figures,
    };
    if (rollout != NULL) {
        to->task_id = rollout->release->task_id;
        to->version_id = rollout->release->version_id;
    }
}

static void view_memory(struct gw_core *core, const struct gw_device_snapshot *snapshot,
                        struct gw_device_view *out)
{
    size_t size;
    const uint8_t *attrs = gw_attr_pool_get(core->pool, snapshot->attrs_id, &size);
    if (attrs != NULL && size <= sizeof(out->attrs_bytes)) {
        memcpy(out->attrs_bytes, attrs, size);
        out->attrs_size = (uint32_t)size;
    }
    if (snapshot->last_seen_s > out->last_seen_s) {
        out->last_seen_s = snapshot->last_seen_s;
    }
    out->proven = out->proven || snapshot->proven;
    if (out->first_seen_s == 0) {
        out->first_seen_s = snapshot->first_seen_s;
    }
    for (uint32_t i = 0; i < snapshot->mark_count; i++) {
        uint64_t id = gw_tally_rollout_id(core->tally, snapshot->marks[i].rollout);
        bool known = id == 0;
        for (uint32_t k = 0; k < out->outcome_count; k++) {
            const struct gw_device_outcome *one = &out->outcomes[k];
            known = known || (one->shadow ? gw_shadow_key(one->rollout_id) : one->rollout_id) == id;
        }
        if (!known && out->outcome_count < GW_DEVICE_OUTCOMES_MAX) {
            struct gw_record_outcome outcome = {.rollout_id = id,
                                                .offered_s = snapshot->marks[i].offered_s,
                                                .updated_s = snapshot->marks[i].offered_s,
                                                .stage = snapshot->marks[i].stage,
                                                .bits = snapshot->marks[i].bits};
            view_outcome(core, &outcome, out);
        }
    }
}

static void view_device(struct gw_core *core, uint64_t device_id,
                        const struct gw_device_record *record, struct gw_device_view *out)
{
    memset(out, 0, sizeof(*out));
    out->device_id = device_id;
    out->tenant = gw_credentials_tenant(core->credentials, device_id);
    out->credential = (uint8_t)gw_credentials_state(core->credentials, device_id);
    if (record != NULL) {
        out->first_seen_s = record->first_seen_s;
        out->last_seen_s = record->last_seen_s;
        out->epoch = record->epoch;
        out->report_seq = record->report_seq;
        out->proven = record->proven;
        out->attrs_size = record->attrs_size;
        memcpy(out->attrs_bytes, record->attrs, record->attrs_size);
        for (uint32_t i = 0; i < record->outcome_count; i++) {
            view_outcome(core, &record->outcomes[i], out);
        }
    }
    struct gw_device_snapshot snapshot;
    if (gw_device_table_get(core->table, device_id, &snapshot)) {
        view_memory(core, &snapshot, out);
    }
    if (wire_attrs_parse(out->attrs_bytes, out->attrs_size, &out->attrs) != BASE_OK) {
        out->attrs.count = 0;
    }
}

void gw_device_failure(struct gw_core *core, const struct gw_device_outcome *outcome,
                       char out[WIRE_REPORT_DETAIL_MAX + 1])
{
    struct gw_cause cause;
    out[0] = '\0';
    if (outcome->fingerprint != 0 &&
        gw_cause_get(core, outcome->rollout_id, outcome->fingerprint, &cause) == BASE_OK) {
        memcpy(out, cause.detail, sizeof(cause.detail));
    }
}

enum base_status gw_device_get(struct gw_core *core, uint64_t device_id, struct gw_device_view *out)
{
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    struct gw_key key = gw_key_u64(device_id);
    struct base_span value;
    struct gw_device_record record;
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    if (status == BASE_OK) {
        status = gw_device_record_decode(value.data, value.size, &record);
    }
    gw_store_read_end(read);
    struct gw_device_snapshot snapshot;
    // Seen but not yet stored, or enrolled and never seen.
    bool known = gw_device_table_get(core->table, device_id, &snapshot) ||
                 gw_credentials_state(core->credentials, device_id) != GW_CREDENTIAL_NONE;
    if (status == BASE_ERR_NOT_FOUND && known) {
        view_device(core, device_id, NULL, out);
        return BASE_OK;
    }
    if (status == BASE_OK) {
        view_device(core, device_id, &record, out);
    }
    return status;
}

struct list {
    struct gw_core *core;
    struct gw_device_view *out;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool list_device(void *ctx, struct base_span key, struct base_span value)
{
    struct list *list = ctx;
    uint64_t device_id;
    struct gw_device_record record;
    if (!gw_key_read_u64(key.data, key.size, 0, &device_id) ||
        gw_device_record_decode(value.data, value.size, &record) != BASE_OK) {
        return true;
    }
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    view_device(list->core, device_id, &record, &list->out[list->count++]);
    return true;
}

enum base_status gw_device_list(struct gw_core *core, bool has_after, uint64_t after,
                                struct gw_device_view *out, struct gw_page *page)
{
    page->count = 0;
    page->more = false;
    if (has_after && after == UINT64_MAX) {
        return BASE_OK;
    }
    struct list list = {.core = core, .out = out, .limit = gw_page_room(page)};
    struct gw_key from = gw_key_u64(has_after ? after + 1 : 0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_DEVICES, &from, list_device, &list);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        page->count = list.count;
        page->more = list.more;
    }
    return status;
}
