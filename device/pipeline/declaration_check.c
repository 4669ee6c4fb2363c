// The certificate of a version's triggers, for those who publish it. Pure but for the memory it
// borrows; any thread.
#include "pipeline/declaration_check.h"

#include "pipeline/pipeline.h"
#include "pipeline/trigger.h"

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

static enum base_status certify(const struct dev_trigger_source *sources, uint32_t count,
                                const struct base_alloc_port *memory,
                                struct dev_trigger_fault *fault)
{
    static const struct dev_trigger_options options = {0};
    struct dev_trigger_certificate certificate = {0};
    size_t bytes = 0;
    BASE_TRY(dev_trigger_scratch_bytes(sources, count, &bytes, fault));
    void *scratch = memory->alloc(memory->ctx, bytes);
    if (scratch == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status =
        dev_trigger_certify(sources, count, &options, scratch, bytes, &certificate, fault);
    memory->release(memory->ctx, scratch);
    if (status == BASE_OK &&
        certificate.set_bytes + certificate.state_bytes > DEV_PIPELINE_TRIGGER_BYTES) {
        status = base_error_set(
            &fault->error, BASE_ERR_LIMIT, "they need %zu bytes on a device; at most %d",
            certificate.set_bytes + certificate.state_bytes, DEV_PIPELINE_TRIGGER_BYTES);
        fault->source = UINT32_MAX;
    }
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
    if (declaration->trigger_count == 0) {
        return BASE_OK;
    }
    return explain(certify(sources, declaration->trigger_count, memory, &fault), &fault, error);
}
