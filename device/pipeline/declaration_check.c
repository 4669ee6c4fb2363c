// The certificate of a version's triggers, and of all the versions a device may hold, for those who
// publish them. Pure but for the memory it borrows; any thread.
#include "pipeline/declaration_check.h"

#include "pipeline/pipeline.h"
#include "pipeline/trigger.h"

#include <string.h>

static enum base_status explain(enum base_status status, const struct dev_trigger_fault *fault,
                                struct base_error *error)
{
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

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

uint64_t dev_declaration_trigger_bytes(const struct dev_trigger_certificate *certificate)
{
    return aligned(certificate->set_bytes_max) + aligned(certificate->state_bytes) +
           (uint64_t)certificate->sources * DEV_PIPELINE_SOURCE_BYTES;
}

// As a device compiles them (pipeline_tasks.c). `work_max` 0: the engine's own.
static enum base_status certify(const struct dev_trigger_source *sources, uint32_t count,
                                uint32_t work_max, const struct base_alloc_port *memory,
                                struct dev_declaration_cost *cost, struct dev_trigger_fault *fault)
{
    const struct dev_trigger_options options = {.work_max = work_max};
    struct dev_trigger_certificate certificate = {0};
    size_t bytes = 0;
    cost->patterns += count;
    if (count == 0) {
        return BASE_OK;
    }
    BASE_TRY(dev_trigger_scratch_bytes(sources, count, &bytes, fault));
    void *scratch = memory->alloc(memory->ctx, bytes);
    if (scratch == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status =
        dev_trigger_certify(sources, count, &options, scratch, bytes, &certificate, fault);
    memory->release(memory->ctx, scratch);
    cost->scratch_bytes += bytes;
    cost->work += certificate.work;
    cost->trigger_bytes += dev_declaration_trigger_bytes(&certificate);
    return status;
}

enum base_status dev_declaration_check(const struct wire_declaration *declaration,
                                       const struct base_alloc_port *memory,
                                       struct base_error *error)
{
    struct dev_trigger_source sources[WIRE_DECLARATION_TRIGGERS_MAX];
    struct dev_trigger_fault fault = {.source = UINT32_MAX};
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        sources[i] = (struct dev_trigger_source){.key = i + 1, .pattern = declaration->triggers[i]};
    }
    struct dev_declaration_cost cost = {0};
    enum base_status status =
        certify(sources, declaration->trigger_count, 0, memory, &cost, &fault);
    if (status == BASE_OK) {
        status = dev_declaration_afford(&cost, &fault.error);
    }
    return explain(status, &fault, error);
}

// ---- Several versions at once

// Patterns of all tasks, borrowed from their bytes.
struct gathered {
    uint32_t count;
    struct dev_trigger_source sources[DEV_PIPELINE_TASKS_MAX * WIRE_DECLARATION_TRIGGERS_MAX];
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
        gathered->sources[gathered->count] = (struct dev_trigger_source){
            .key = gathered->count + 1, .pattern = declaration.triggers[i]};
        gathered->tasks[gathered->count++] = index;
    }
    return BASE_OK;
}

// Certifies so many tasks as one set and adds what it costs.
static enum base_status add_set(const struct dev_declared_task *tasks, uint32_t count,
                                struct gathered *gathered, const struct base_alloc_port *memory,
                                struct dev_declaration_cost *cost, struct base_error *error)
{
    struct dev_trigger_fault fault = {.source = UINT32_MAX};
    gathered->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(gather(&tasks[i], i, gathered, error));
        cost->declaration_bytes += tasks[i].declaration.size;
        cost->tasks++;
    }
    enum base_status status =
        certify(gathered->sources, gathered->count, UINT32_MAX, memory, cost, &fault);
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
    struct dev_declaration_cost cost = {0};
    enum base_status status = BASE_OK;
    struct gathered *gathered = memory->alloc(memory->ctx, sizeof(*gathered));
    if (gathered == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (count <= DEV_PIPELINE_TASKS_MAX) {
        status = add_set(tasks, count, gathered, memory, &cost, error);
    }
    for (uint32_t i = 0; count > DEV_PIPELINE_TASKS_MAX && i < count && status == BASE_OK; i++) {
        status = add_set(&tasks[i], 1, gathered, memory, &cost, error);
    }
    memory->release(memory->ctx, gathered);
    if (status == BASE_OK) {
        *out = cost;
    }
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
