// Which content of a shard's store has passed the check of bytecode. Called by the shard's VM,
// inside a run, on the shard's thread. Only what has passed is remembered: bytes that were refused
// are looked at again each time.
#include "ports/sim_checks.h"

#include "base/check.h"
#include "vm/mpy/mpy_check.h"

#include <string.h>

// The content of the store that these bytes are; NULL: none.
static const struct sim_blob *content_of(const struct sim_checks *checks,
                                         const struct dev_vm_module *module)
{
    base_assert(checks->job != NULL);
    for (uint32_t i = 0; checks->store != NULL && i < checks->job->file_count; i++) {
        const struct dev_task_file *file = &checks->job->files[i];
        if (file->bytes != module->mpy || file->size != module->size) {
            continue;
        }
        const struct sim_blob *blob = sim_store_find(checks->store, &file->digest);
        bool same = blob != NULL && blob->size == module->size &&
                    (blob->bytes == module->mpy ||
                     (checks->real && memcmp(blob->bytes, module->mpy, module->size) == 0));
        return same ? blob : NULL;
    }
    return NULL;
}

static enum base_status check(void *ctx, const struct dev_vm_module *module,
                              struct dev_mpy_fault *out_fault)
{
    struct sim_checks *checks = ctx;
    const struct sim_blob *blob = content_of(checks, module);
    uint8_t *bits = blob != NULL ? &checks->passed[blob->index / 8] : NULL;
    uint8_t bit = (uint8_t)(blob != NULL ? 1u << blob->index % 8 : 0u);
    bool known = blob != NULL && (*bits & bit) != 0;
    if (known && !checks->real) {
        checks->shared++;
        return BASE_OK;
    }
    enum base_status status = dev_mpy_check(module->mpy, module->size, out_fault);
    checks->made++;
    checks->compared += known;
    checks->mismatches += known && status != BASE_OK;
    if (blob != NULL && status == BASE_OK) {
        *bits |= bit;
    }
    return status;
}

struct dev_vm_check_port sim_checks_port(struct sim_checks *checks, const struct dev_task_job *job,
                                         bool real)
{
    checks->job = job;
    checks->real = real;
    return (struct dev_vm_check_port){.ctx = checks, .check = check};
}
