// See rollout_figures.h. rollout_control.c calls _step on the control thread at its ticks,
// metrics_text.c calls _write on a worker. Between them is a copy under one lock: a scrape never
// asks the control thread for anything. The number of rollouts with figures of their own is
// bounded, the newest stay, as each label costs whoever stores metrics.
#include "svc/rollout/rollout_figures.h"

#include "svc/core_private.h"
#include "svc/access/operators.h"
#include "svc/rollout/rollout_state.h"
#include "svc/tally/tally.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_US    UINT64_C(1000000)
#define LINE_BYTES 512

struct rollout_figure {
    uint64_t id;
    uint64_t created_us;
    uint16_t tenant;
    char task[WIRE_TASK_NAME_MAX + 1];
    char version[GW_VERSION_TEXT_MAX + 1];
    char stage[GW_STAGE_NAME_MAX + 1];
    enum pol_rollout_state state;
    uint32_t failure_ppm;
    struct gw_rollout_counts counts;
};

struct task_figure {
    uint16_t tenant;
    char name[WIRE_TASK_NAME_MAX + 1];
    char baseline[GW_VERSION_TEXT_MAX + 1]; // empty: none
    uint32_t open;
    uint64_t counter;
};

struct gw_rollout_figures {
    pthread_mutex_t lock;
    uint64_t looked_us; // the control thread's
    uint32_t rollout_count;
    uint32_t task_count;
    uint64_t left_out; // open rollouts beyond those
    struct rollout_figure rollouts[GW_FIGURES_ROLLOUTS_MAX];
    struct task_figure tasks[GW_FIGURES_TASKS_MAX];
};

enum base_status gw_rollout_figures_new(struct gw_rollout_figures **out)
{
    struct gw_rollout_figures *figures = calloc(1, sizeof(*figures));
    if (figures == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&figures->lock, NULL);
    *out = figures;
    return BASE_OK;
}

void gw_rollout_figures_free(struct gw_rollout_figures *figures)
{
    if (figures != NULL) {
        pthread_mutex_destroy(&figures->lock);
        free(figures);
    }
}

// ---- Looking

static void version_of(struct gw_core *core, const struct gw_rollout *rollout,
                       char out[GW_VERSION_TEXT_MAX + 1])
{
    struct gw_version_view version;
    out[0] = '\0';
    if (gw_catalog_version_get(core, base_str_of(rollout->task->name), &rollout->release->manifest,
                               &version) == BASE_OK) {
        memcpy(out, version.version, GW_VERSION_TEXT_MAX + 1);
    }
}

// A stage is called as somebody likes; the text format would have these escaped.
static void plain_name(char *name)
{
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '"' || *at == '\\' || (unsigned char)*at < 0x20 ? '_' : *at;
    }
}

static void look_at(struct gw_core *core, const struct gw_rollout *rollout,
                    struct rollout_figure *out)
{
    memset(out, 0, sizeof(*out));
    out->id = rollout->release->id;
    out->created_us = rollout->created_us;
    out->tenant = rollout->task->tenant;
    out->state = rollout->state.state;
    out->failure_ppm = rollout->failure_ppm;
    memcpy(out->task, rollout->task->name, sizeof(out->task));
    memcpy(out->stage, rollout->release->stage_names[rollout->state.stage_index],
           sizeof(out->stage));
    plain_name(out->stage);
    version_of(core, rollout, out->version);
    (void)gw_tally_counts(core->tally, out->id, GW_TALLY_STAGE_ALL, gw_core_sure_s(core),
                          &out->counts);
}

// The newest open rollouts, in no order; out[] are places in the catalog.
static uint32_t newest(const struct gw_catalog *catalog, uint32_t out[GW_FIGURES_ROLLOUTS_MAX],
                       uint64_t *out_left)
{
    uint32_t count = 0;
    *out_left = 0;
    for (uint32_t i = 0; i < catalog->rollout_count; i++) {
        uint32_t oldest = 0;
        if (gw_rollout_is_closed(catalog->rollouts[i])) {
            continue;
        }
        if (count < GW_FIGURES_ROLLOUTS_MAX) {
            out[count++] = i;
            continue;
        }
        for (uint32_t k = 1; k < count; k++) {
            bool older =
                catalog->rollouts[out[k]]->created_us < catalog->rollouts[out[oldest]]->created_us;
            oldest = older ? k : oldest;
        }
        if (catalog->rollouts[i]->created_us > catalog->rollouts[out[oldest]]->created_us) {
            out[oldest] = i;
        }
        (*out_left)++;
    }
    return count;
}

static void look_at_task(struct gw_core *core, const struct gw_task *task, struct task_figure *out)
{
    const struct gw_rollout *baseline = gw_task_baseline(core, task);
    memset(out, 0, sizeof(*out));
    out->tenant = task->tenant;
    out->open = task->open_count;
    out->counter = task->release_counter;
    memcpy(out->name, task->name, sizeof(out->name));
    if (baseline != NULL) {
        version_of(core, baseline, out->baseline);
    }
}

void gw_rollout_figures_step(struct gw_core *core)
{
    struct gw_rollout_figures *figures = core->figures;
    const struct gw_catalog *catalog = &core->catalog;
    uint64_t now_us = core->clock.mono_us(core->clock.ctx);
    uint32_t places[GW_FIGURES_ROLLOUTS_MAX];
    if (figures->looked_us > 0 && now_us - figures->looked_us < LOOK_US) {
        return;
    }
    figures->looked_us = now_us;
    uint32_t tasks =
        catalog->task_count < GW_FIGURES_TASKS_MAX ? catalog->task_count : GW_FIGURES_TASKS_MAX;
    pthread_mutex_lock(&figures->lock);
    figures->rollout_count = newest(catalog, places, &figures->left_out);
    for (uint32_t i = 0; i < figures->rollout_count; i++) {
        look_at(core, catalog->rollouts[places[i]], &figures->rollouts[i]);
    }
    for (uint32_t i = 0; i < tasks; i++) {
        look_at_task(core, catalog->tasks[i], &figures->tasks[i]);
    }
    figures->task_count = tasks;
    pthread_mutex_unlock(&figures->lock);
}

// ---- Writing

struct page {
    const struct gw_actor *actor;
    gw_figures_text_fn add;
    void *ctx;
};

BASE_PRINTF(2, 3)
static void put(const struct page *page, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    page->add(page->ctx, line);
}

static bool sees(const struct page *page, uint16_t tenant, const char *task)
{
    const struct gw_actor *actor = page->actor;
    return actor == NULL || ((actor->every_tenant || actor->tenant == tenant) &&
                             gw_actor_covers(actor, base_str_of(task)));
}

static void write_info(const struct page *page, const struct gw_rollout_figures *figures)
{
    put(page, "# HELP walle_rollout_info What an open rollout is of and where it is; always 1.\n"
              "# TYPE walle_rollout_info gauge\n");
    for (uint32_t i = 0; i < figures->rollout_count; i++) {
        const struct rollout_figure *one = &figures->rollouts[i];
        if (sees(page, one->tenant, one->task)) {
            put(page,
                "walle_rollout_info{rollout=\"%016" PRIx64
                "\",task=\"%s\",version=\"%s\",state=\"%s\",stage=\"%s\"} 1\n",
                one->id, one->task, one->version, pol_rollout_state_name(one->state), one->stage);
        }
    }
}

static void write_devices(const struct page *page, const struct gw_rollout_figures *figures)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        {"offered", offsetof(struct gw_rollout_counts, offered)},
        {"under_way", offsetof(struct gw_rollout_counts, under_way)},
        {"succeeded", offsetof(struct gw_rollout_counts, succeeded)},
        {"failed", offsetof(struct gw_rollout_counts, failed)},
        {"timed_out", offsetof(struct gw_rollout_counts, timed_out)},
        {"silent", offsetof(struct gw_rollout_counts, silent)},
        {"rolled_back", offsetof(struct gw_rollout_counts, rolled_back)},
    };
    put(page, "# HELP walle_rollout_devices Devices of an open rollout, by what they are at.\n"
              "# TYPE walle_rollout_devices gauge\n");
    for (uint32_t i = 0; i < figures->rollout_count; i++) {
        const struct rollout_figure *one = &figures->rollouts[i];
        for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
            uint64_t number;
            memcpy(&number, (const char *)&one->counts + fields[k].offset, sizeof(number));
            if (sees(page, one->tenant, one->task)) {
                put(page,
                    "walle_rollout_devices{rollout=\"%016" PRIx64
                    "\",task=\"%s\",are=\"%s\"} %" PRIu64 "\n",
                    one->id, one->task, fields[k].name, number);
            }
        }
    }
}

static void write_ratios(const struct page *page, const struct gw_rollout_figures *figures)
{
    put(page, "# HELP walle_rollout_failure_ratio Failed share at the last verdict of its stage.\n"
              "# TYPE walle_rollout_failure_ratio gauge\n");
    for (uint32_t i = 0; i < figures->rollout_count; i++) {
        const struct rollout_figure *one = &figures->rollouts[i];
        if (sees(page, one->tenant, one->task)) {
            put(page, "walle_rollout_failure_ratio{rollout=\"%016" PRIx64 "\",task=\"%s\"} %.6f\n",
                one->id, one->task, one->failure_ppm / 1e6);
        }
    }
    put(page,
        "# HELP walle_rollouts_unlisted Open rollouts beyond the newest %u, which alone have "
        "figures of their own.\n# TYPE walle_rollouts_unlisted gauge\n"
        "walle_rollouts_unlisted %" PRIu64 "\n",
        GW_FIGURES_ROLLOUTS_MAX, figures->left_out);
}

static void write_tasks(const struct page *page, const struct gw_rollout_figures *figures)
{
    put(page, "# HELP walle_task_open_rollouts Open rollouts of a task.\n"
              "# TYPE walle_task_open_rollouts gauge\n");
    for (uint32_t i = 0; i < figures->task_count; i++) {
        const struct task_figure *one = &figures->tasks[i];
        if (sees(page, one->tenant, one->name)) {
            put(page, "walle_task_open_rollouts{task=\"%s\"} %u\n", one->name, one->open);
        }
    }
    put(page, "# HELP walle_task_release_number Highest release counter used; the version is what "
              "devices have.\n# TYPE walle_task_release_number gauge\n");
    for (uint32_t i = 0; i < figures->task_count; i++) {
        const struct task_figure *one = &figures->tasks[i];
        if (sees(page, one->tenant, one->name)) {
            put(page, "walle_task_release_number{task=\"%s\",baseline=\"%s\"} %" PRIu64 "\n",
                one->name, one->baseline, one->counter);
        }
    }
}

void gw_rollout_figures_write(struct gw_core *core, const struct gw_actor *actor,
                              gw_figures_text_fn add, void *ctx)
{
    struct gw_rollout_figures *figures = core->figures;
    const struct page page = {.actor = actor, .add = add, .ctx = ctx};
    pthread_mutex_lock(&figures->lock);
    write_info(&page, figures);
    write_devices(&page, figures);
    write_ratios(&page, figures);
    write_tasks(&page, figures);
    pthread_mutex_unlock(&figures->lock);
}
