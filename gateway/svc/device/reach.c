// The walk over known devices that tells whether a target can reach anybody. Any thread; see
// reach.h. rollouts.c calls on the control thread when a rollout is made, preview.c on the
// background thread. Each distinct attribute block is asked once, and the walk ends when nothing is
// in doubt. A shard's mutex is held for a batch of devices at a time.
#include "svc/device/reach.h"

#include "base/text/likeness.h"
#include "policy/expr.h"
#include "svc/core_private.h"
#include "svc/device/preview.h"
#include "svc/access/credentials.h"
#include "svc/access/operators.h"
#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"
#include "svc/plan/cohort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALK_BATCH 256u // devices looked at with a shard's mutex held
#define ASKED_MAX  64u  // distinct attributes that target and audiences ask about
#define TOLD_MAX   256u // distinct names that devices have told, kept for a likeness
#define NAME_MAX   32u

_Static_assert(NAME_MAX == POL_EXPR_NAME_MAX && NAME_MAX == WIRE_ATTR_NAME_MAX, "any name fits");

struct name {
    char text[NAME_MAX + 1];
    uint32_t size;
};

struct asked {
    struct name name;
    uint32_t stage; // that asks first; 0: the target
    bool known;
};

struct reach {
    struct gw_core *core;
    const struct gw_reach_spec *spec;
    struct gw_reach *out;
    bool with_strangers; // devices count that did not show who they are
    uint8_t *looked;     // by attrs_id
    uint32_t block_count;
    uint32_t asked_count;
    uint32_t open_count; // asked and not known yet
    uint32_t told_count;
    struct asked asked[ASKED_MAX];
    struct name told[TOLD_MAX];
};

static struct name name_of(const char *data, size_t size)
{
    struct name name = {.size = (uint32_t)(size < NAME_MAX ? size : NAME_MAX)};
    memcpy(name.text, data, name.size);
    return name;
}

static bool same(const struct name *a, const struct name *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

// ---- What is asked

static void ask(struct reach *reach, struct pol_text attr, uint32_t stage)
{
    struct name name = name_of(attr.data, attr.size);
    for (uint32_t i = 0; i < reach->asked_count; i++) {
        if (same(&reach->asked[i].name, &name)) {
            return;
        }
    }
    if (reach->asked_count < ASKED_MAX) {
        reach->asked[reach->asked_count++] = (struct asked){.name = name, .stage = stage};
    }
}

static void ask_target(struct reach *reach, const struct pol_target *target, uint32_t stage)
{
    for (uint32_t i = 0; i < target->cond_count; i++) {
        ask(reach, target->conds[i].attr, stage);
    }
    for (uint32_t i = 0; target->expr != NULL; i++) {
        struct pol_text attr = pol_expr_test_attr(target->expr, i);
        if (attr.size == 0) {
            break;
        }
        ask(reach, attr, stage);
    }
}

// ---- What devices have

static void keep(struct reach *reach, struct base_str text)
{
    struct name name = name_of(text.data, text.size);
    for (uint32_t i = 0; i < reach->told_count; i++) {
        if (same(&reach->told[i], &name)) {
            return;
        }
    }
    if (reach->told_count < TOLD_MAX) {
        reach->told[reach->told_count++] = name;
    }
}

static void tell(struct reach *reach, struct base_str text)
{
    struct name name = name_of(text.data, text.size);
    for (uint32_t i = 0; i < reach->asked_count; i++) {
        struct asked *asked = &reach->asked[i];
        if (!asked->known && same(&asked->name, &name)) {
            asked->known = true;
            reach->open_count--;
        }
    }
    keep(reach, text);
}

static void look(struct reach *reach, uint32_t attrs_id)
{
    struct gw_attrs_view view;
    struct pol_attrs attrs = {NULL, 0};
    size_t size = 0;
    const uint8_t *bytes = gw_attr_pool_get(reach->core->pool, attrs_id, &size);
    if (bytes != NULL && gw_attrs_view(bytes, size, &view) == BASE_OK) {
        attrs = view.attrs;
    }
    for (uint32_t i = 0; i < attrs.count; i++) {
        tell(reach, (struct base_str){attrs.items[i].name.data, attrs.items[i].name.size});
    }
    reach->out->matched =
        reach->out->matched || pol_target_match(&reach->spec->target, &attrs).matched;
}

static void see_device(void *ctx, struct gw_device_visit *visit)
{
    struct reach *reach = ctx;
    struct gw_credentials *credentials = reach->core->credentials;
    uint16_t tenant = gw_credentials_plain(credentials)
                          ? GW_TENANT_DEFAULT
                          : gw_credentials_tenant(credentials, visit->device_id);
    if (tenant != reach->spec->tenant) {
        return;
    }
    if (!visit->proven && !reach->with_strangers) {
        reach->out->strangers++;
        return;
    }
    reach->out->seen++;
    // Blocks that came meanwhile are as none: their devices came just now.
    uint32_t id = visit->attrs_id < reach->block_count ? visit->attrs_id : 0;
    if (!reach->looked[id]) {
        reach->looked[id] = 1;
        look(reach, id);
    }
}

static void walk(struct reach *reach)
{
    for (uint32_t shard = 0; shard < GW_DEVICE_TABLE_SHARDS; shard++) {
        uint32_t from = 0;
        uint32_t seen;
        do {
            if (reach->out->matched && reach->open_count == 0) {
                return;
            }
            seen = gw_device_table_walk(reach->core->table, (struct gw_device_place){shard, from},
                                        WALK_BATCH, see_device, reach);
            from += seen;
        } while (seen == WALK_BATCH);
    }
}

// ---- What was meant

// A third of the letters may differ, but two at most.
static void find_like(const struct reach *reach, const struct name *name, char *out)
{
    uint32_t best = (name->size < 6 ? name->size / 3 : 2) + 1;
    for (uint32_t i = 0; i < reach->told_count; i++) {
        const struct name *told = &reach->told[i];
        uint32_t apart = base_likeness((struct base_str){name->text, name->size},
                                       (struct base_str){told->text, told->size});
        if (apart > 0 && apart < best) {
            best = apart;
            memcpy(out, told->text, NAME_MAX + 1);
        }
    }
}

static void sum_up(struct reach *reach)
{
    for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; i++) {
        keep(reach, base_str_of(gw_preview_attr_name(i)));
    }
    struct gw_reach *out = reach->out;
    for (uint32_t i = 0; i < reach->asked_count && out->unknown_count < GW_REACH_UNKNOWN; i++) {
        const struct asked *asked = &reach->asked[i];
        if (!asked->known) {
            struct gw_reach_unknown *unknown = &out->unknown[out->unknown_count++];
            unknown->stage = asked->stage;
            memcpy(unknown->attr, asked->name.text, sizeof(unknown->attr));
            find_like(reach, &asked->name, unknown->like);
        }
    }
}

enum base_status gw_reach_find(struct gw_core *core, const struct gw_reach_spec *spec,
                               struct gw_reach *out)
{
    struct reach *reach = calloc(1, sizeof(*reach));
    if (reach == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(out, 0, sizeof(*out));
    reach->core = core;
    reach->spec = spec;
    reach->out = out;
    reach->block_count = gw_attr_pool_count(core->pool) + 1;
    reach->looked = calloc(reach->block_count, 1);
    enum base_status status = reach->looked != NULL ? BASE_OK : BASE_ERR_NOMEM;
    if (status == BASE_OK) {
        ask_target(reach, &spec->target, 0);
        for (uint32_t i = 0; i < spec->stage_count; i++) {
            ask_target(reach, &spec->stages[i].audience, i + 1);
        }
        reach->open_count = reach->asked_count;
        reach->with_strangers = spec->trust_unproven;
        walk(reach);
        if (out->seen == 0 && out->strangers > 0) { // nobody showed who it is: all are alike
            reach->with_strangers = true;
            out->strangers = 0;
            walk(reach);
        }
        sum_up(reach);
    }
    free(reach->looked);
    free(reach);
    return status;
}

// ---- What is said of it

// Behind what is said of known devices.
static const char *without_strangers(const struct gw_reach *seen)
{
    return seen->strangers > 0 ? " (of those that showed who they are)" : "";
}

static enum base_status say_unknown(const struct gw_reach *seen, struct base_error *error)
{
    const struct gw_reach_unknown *unknown = &seen->unknown[0];
    char where[32] = "target";
    if (unknown->stage > 0) {
        (void)snprintf(where, sizeof(where), "stage %u: audience", unknown->stage);
    }
    return base_error_set(error, BASE_ERR_CONFLICT,
                          "%s: no known device%s has attribute %s%s%s%s; mend it, or add "
                          "--accept-empty (API: accept_empty)",
                          where, without_strangers(seen), unknown->attr,
                          unknown->like[0] != '\0' ? "; did you mean " : "", unknown->like,
                          unknown->like[0] != '\0' ? "?" : "");
}

enum base_status gw_reach_check(struct gw_core *core, const struct gw_reach_spec *spec,
                                struct base_error *error)
{
    struct gw_reach seen;
    enum base_status status = gw_reach_find(core, spec, &seen);
    if (status != BASE_OK) {
        return base_error_set(error, status, "target: %s", base_status_text(status));
    }
    if (seen.unknown_count > 0 && seen.seen > 0) {
        return say_unknown(&seen, error);
    }
    if (!seen.matched) {
        return seen.seen > 0
                   ? base_error_set(error, BASE_ERR_CONFLICT,
                                    "target: none of %llu known devices%s matches it; mend it, or "
                                    "add --accept-empty (API: accept_empty)",
                                    (unsigned long long)seen.seen, without_strangers(&seen))
                   : base_error_set(error, BASE_ERR_CONFLICT,
                                    "target: no device is known yet; connect some, or add "
                                    "--accept-empty (API: accept_empty)");
    }
    return BASE_OK;
}
