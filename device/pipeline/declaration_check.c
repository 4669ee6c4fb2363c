// The certificate of a version's triggers, and of all the versions a device may hold, for those who
// publish them: `walle task build` (cli/task/task_declare.c), the gateway (svc/rollout/catalog.c,
// svc/rollout/set_cost.c, api/api_cost.c) and the simulator's reports. It asks the trigger compiler
// as pipeline_tasks.c does on a device, with the same bounds, so what passes here is what a device
// takes. Pure but for the memory it borrows; any thread.
#include "pipeline/declaration_check.h"

#include "base/carve.h"
#include "base/check.h"
#include "pipeline/pipeline.h"
#include "pipeline/trigger/timeouts.h"
#include "pipeline/trigger/trigger.h"
#include "wire/leaves/leaves.h"

#include <string.h>

static enum base_status explain(enum base_status status, const struct dev_trigger_fault *fault,
                                struct base_error *error)
{
    base_assert(status == BASE_OK || status == BASE_ERR_NOMEM || fault->error.text[0] != '\0');
    if (status == BASE_OK || status == BASE_ERR_NOMEM) {
        return status;
    }
    if (fault->source == UINT32_MAX) {
        return base_error_set(error, status, "triggers: %s", fault->error.text);
    }
    if (fault->error.column > 0) {
        return base_error_set(error, status, "triggers[%u]: column %u: %s", fault->source,
                              fault->error.column, fault->error.text);
    }
    return base_error_set(error, status, "triggers[%u]: %s", fault->source, fault->error.text);
}

uint64_t dev_declaration_trigger_bytes(const struct dev_trigger_certificate *certificate)
{
    return base_aligned(certificate->set_bytes_max, 16) +
           base_aligned(certificate->state_bytes, 16) +
           (uint64_t)certificate->sources * DEV_PIPELINE_SOURCE_BYTES;
}

struct certifying {
    const struct base_alloc_port *memory;
    uint32_t work_max; // 0: the engine's own
    struct dev_trigger_fault *fault;
};

// As a device compiles them (pipeline_tasks.c).
static enum base_status certify_set(const struct certifying *how,
                                    const struct dev_trigger_sources *sources,
                                    struct dev_declaration_cost *cost,
                                    struct dev_trigger_certificate *out)
{
    const struct dev_trigger_options options = {.work_max = how->work_max};
    const struct base_alloc_port *memory = how->memory;
    struct dev_trigger_scratch scratch = {0};
    *out = (struct dev_trigger_certificate){0};
    if (sources->count == 0) {
        return BASE_OK;
    }
    BASE_TRY(dev_trigger_scratch_bytes(sources, &scratch.bytes, how->fault));
    scratch.memory = memory->alloc(memory->ctx, scratch.bytes);
    if (scratch.memory == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = dev_trigger_certify(sources, &options, scratch, out, how->fault);
    memory->release(memory->ctx, scratch.memory);
    cost->scratch_bytes += scratch.bytes;
    cost->work += out->work;
    cost->trigger_bytes += dev_declaration_trigger_bytes(out);
    return status;
}

// With the openings of those that ask for their time-outs behind them, for which `sources` has as
// many places again. A fault is of the trigger, not of its opening.
static enum base_status certify(const struct certifying *how, struct dev_trigger_source *sources,
                                uint32_t count, struct dev_declaration_cost *cost,
                                struct dev_trigger_certificate *out)
{
    struct dev_trigger_fault *fault = how->fault;
    size_t room = 1;
    uint32_t all = count;
    for (uint32_t i = 0; i < count; i++) {
        room += DEV_TIMEOUT_TEXTS(sources[i].pattern.size, 1);
    }
    char *texts = how->memory->alloc(how->memory->ctx, room);
    if (texts == NULL) {
        return BASE_ERR_NOMEM;
    }
    char *at = texts;
    for (uint32_t i = 0; i < count; i++) {
        struct dev_timeout_ask ask;
        size_t left = room - (size_t)(at - texts);
        if (dev_timeout_ask(sources[i].pattern, at, left, &ask) == BASE_OK) {
            sources[all++] = (struct dev_trigger_source){.key = dev_timeout_key(sources[i].key),
                                                         .pattern = ask.opening};
            at += ask.opening.size;
            base_assert(at <= texts + room && all <= 2 * count);
        }
    }
    cost->patterns += count;
    const struct dev_trigger_sources set = {sources, all};
    enum base_status status = certify_set(how, &set, cost, out);
    for (uint32_t i = 0; fault->source >= count && fault->source < all && i < count; i++) {
        fault->source =
            dev_timeout_key(sources[i].key) == sources[fault->source].key ? i : fault->source;
    }
    how->memory->release(how->memory->ctx, texts);
    return status;
}

static void sources_of(const struct wire_declaration *declaration, struct dev_trigger_source *out)
{
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        out[i] = (struct dev_trigger_source){.key = i + 1, .pattern = declaration->triggers[i]};
    }
}

// What may leave, where it is said: readable, and of uploads that are declared.
static enum base_status leaves_check(const struct wire_declaration *declaration,
                                     struct base_error *error)
{
    struct wire_leaves leaves;
    if (declaration->leaves.size == 0) {
        return BASE_OK;
    }
    enum base_status status = wire_leaves_parse((const uint8_t *)declaration->leaves.data,
                                                declaration->leaves.size, &leaves);
    if (status != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "leaves: %s", base_status_text(status));
    }
    for (uint32_t i = 0; i < leaves.upload_count; i++) {
        struct base_str name = leaves.uploads[i].name;
        if (wire_declaration_upload(declaration, name) == NULL) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "leaves: upload '%.*s' is not in \"uploads\"", (int)name.size,
                                  name.data);
        }
    }
    return BASE_OK;
}

enum base_status dev_declaration_check(const struct wire_declaration *declaration,
                                       const struct base_alloc_port *memory,
                                       struct base_error *error)
{
    BASE_TRY(leaves_check(declaration, error));
    struct dev_trigger_source sources[2 * WIRE_DECLARATION_TRIGGERS_MAX];
    struct dev_trigger_fault fault = {.source = UINT32_MAX};
    sources_of(declaration, sources);
    struct dev_declaration_cost cost = {0};
    struct dev_trigger_certificate certificate;
    const struct certifying certifying = {.memory = memory, .fault = &fault};
    enum base_status status =
        certify(&certifying, sources, declaration->trigger_count, &cost, &certificate);
    if (status == BASE_OK) {
        status = dev_declaration_afford(&cost, &fault.error);
    }
    return explain(status, &fault, error);
}

enum base_status dev_declaration_certify(const struct wire_declaration *declaration,
                                         const struct base_alloc_port *memory,
                                         struct dev_trigger_certificate *out)
{
    struct dev_trigger_source sources[2 * WIRE_DECLARATION_TRIGGERS_MAX];
    struct dev_trigger_fault fault = {.source = UINT32_MAX};
    struct dev_declaration_cost cost = {0};
    const struct certifying certifying = {.memory = memory, .fault = &fault};
    sources_of(declaration, sources);
    return certify(&certifying, sources, declaration->trigger_count, &cost, out);
}

// ---- Several versions at once

// Patterns of all tasks, borrowed from their bytes, and what they cost.
struct gathered {
    struct dev_declaration_cost cost; // of all sets so far
    uint32_t count;                   // of the set under way
    struct dev_trigger_source sources[2 * DEV_PIPELINE_TASKS_MAX * WIRE_DECLARATION_TRIGGERS_MAX];
    uint32_t tasks[DEV_PIPELINE_TASKS_MAX * WIRE_DECLARATION_TRIGGERS_MAX];
};

static enum base_status gather(const struct dev_declared_task *task, uint32_t index,
                               struct gathered *gathered, struct base_error *error)
{
    struct wire_declaration declaration;
    enum base_status status = wire_declaration_parse((const uint8_t *)task->declaration.data,
                                                     task->declaration.size, &declaration);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.*s: declaration: %s", (int)task->name.size,
                              task->name.data, base_status_text(status));
    }
    for (uint32_t i = 0; i < declaration.trigger_count; i++) {
        base_assert(gathered->count < sizeof(gathered->tasks) / sizeof(gathered->tasks[0]));
        gathered->sources[gathered->count] = (struct dev_trigger_source){
            .key = gathered->count + 1, .pattern = declaration.triggers[i]};
        gathered->tasks[gathered->count++] = index;
    }
    return BASE_OK;
}

// Certifies so many tasks as one set and adds what it costs.
static enum base_status add_set(const struct dev_declared_task *tasks, uint32_t count,
                                struct gathered *gathered, const struct base_alloc_port *memory,
                                struct base_error *error)
{
    base_assert(count <= DEV_PIPELINE_TASKS_MAX);
    struct dev_declaration_cost *cost = &gathered->cost;
    struct dev_trigger_fault fault = {.source = UINT32_MAX};
    gathered->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(gather(&tasks[i], i, gathered, error));
        cost->declaration_bytes += tasks[i].declaration.size;
        cost->tasks++;
    }
    const struct certifying certifying = {
        .memory = memory, .work_max = UINT32_MAX, .fault = &fault};
    struct dev_trigger_certificate certificate;
    enum base_status status =
        certify(&certifying, gathered->sources, gathered->count, cost, &certificate);
    if (status == BASE_OK || status == BASE_ERR_NOMEM) {
        return status;
    }
    uint32_t at = fault.source < gathered->count ? gathered->tasks[fault.source] : 0;
    return base_error_set(error, status, "%.*s: %s", (int)tasks[at].name.size, tasks[at].name.data,
                          fault.error.text);
}

enum base_status dev_declaration_cost(const struct dev_declared_task *tasks, uint32_t count,
                                      const struct base_alloc_port *memory,
                                      struct dev_declaration_cost *out, struct base_error *error)
{
    enum base_status status = BASE_OK;
    struct gathered *gathered = memory->alloc(memory->ctx, sizeof(*gathered));
    if (gathered == NULL) {
        return BASE_ERR_NOMEM;
    }
    gathered->cost = (struct dev_declaration_cost){0};
    if (count <= DEV_PIPELINE_TASKS_MAX) {
        status = add_set(tasks, count, gathered, memory, error);
    }
    for (uint32_t i = 0; count > DEV_PIPELINE_TASKS_MAX && i < count && status == BASE_OK; i++) {
        status = add_set(&tasks[i], 1, gathered, memory, error);
    }
    if (status == BASE_OK) {
        *out = gathered->cost;
    }
    memory->release(memory->ctx, gathered);
    return status;
}

// The parts of the budget, in the order in which a device looks at them.
struct part {
    uint64_t needed;
    uint64_t most;
    const char *what;
};

#define PARTS 5

static void parts_of(const struct dev_declaration_cost *cost, struct part out[PARTS])
{
    const struct part parts[PARTS] = {
        {cost->tasks, DEV_PIPELINE_TASKS_MAX, "tasks that declare something"},
        {cost->declaration_bytes, DEV_PIPELINE_DECLARATION_BYTES, "bytes of declarations"},
        {cost->scratch_bytes, DEV_PIPELINE_SCRATCH_BYTES, "bytes to compile triggers"},
        {cost->work, DEV_TRIGGER_WORK_MAX, "steps an event"},
        {cost->trigger_bytes, DEV_PIPELINE_TRIGGER_BYTES, "bytes of compiled triggers"},
    };
    memcpy(out, parts, sizeof(parts));
}

enum base_status dev_declaration_afford(const struct dev_declaration_cost *cost,
                                        struct base_error *error)
{
    struct part parts[PARTS];
    parts_of(cost, parts);
    for (uint32_t i = 0; i < PARTS; i++) {
        if (parts[i].needed > parts[i].most) {
            return base_error_set(error, BASE_ERR_LIMIT, "%llu %s, a device has %llu",
                                  (unsigned long long)parts[i].needed, parts[i].what,
                                  (unsigned long long)parts[i].most);
        }
    }
    return BASE_OK;
}

uint64_t dev_declaration_share_ppm(const struct dev_declaration_cost *cost)
{
    struct part parts[PARTS];
    uint64_t most = 0;
    parts_of(cost, parts);
    for (uint32_t i = 1; i < PARTS; i++) { // every version is one task
        uint64_t share = parts[i].needed * 1000000 / parts[i].most;
        most = share > most ? share : most;
    }
    return most;
}
