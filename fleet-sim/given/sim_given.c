// Files for the tasks of virtual devices. Read when the fleet is made; afterwards nothing changes,
// so any number of threads look at it, and what a device has does not hang on the order of events:
// it follows from its id. The sets of all devices lie here once.
#include "given/sim_given.h"

#include "base/hash.h"
#include "blobs/blob_files.h"

#include <stdlib.h>

struct sim_given {
    struct dev_blob_set *sets[SIM_GIVEN_SETS_MAX];
    uint32_t count;
};

static size_t set_bytes(const struct dev_blob_set *set)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        bytes += set->blobs[i].size;
    }
    return bytes;
}

static enum base_status sets_read(const struct blob_files *files, struct sim_given *given,
                                  struct base_error *error)
{
    uint32_t count = files->turns < SIM_GIVEN_SETS_MAX ? files->turns : SIM_GIVEN_SETS_MAX;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(blob_files_read(files, i, &given->sets[i], error));
        given->count++;
        bytes += set_bytes(given->sets[i]);
        if (bytes > SIM_GIVEN_BYTES_MAX) {
            return base_error_set(error, BASE_ERR_TOO_LARGE, "more than %zu MiB of files",
                                  SIM_GIVEN_BYTES_MAX >> 20);
        }
    }
    return BASE_OK;
}

enum base_status sim_given_new(const char *text, struct sim_given **out, struct base_error *error)
{
    struct blob_files files = {.count = 0};
    struct sim_given *given = calloc(1, sizeof(*given));
    if (given == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = blob_files_add_all(&files, text, ',', error);
    if (status == BASE_OK) {
        status = sets_read(&files, given, error);
    }
    blob_files_done(&files);
    if (status != BASE_OK) {
        sim_given_free(given);
        return status;
    }
    *out = given;
    return BASE_OK;
}

void sim_given_free(struct sim_given *given)
{
    for (uint32_t i = 0; given != NULL && i < given->count; i++) {
        blob_files_free(given->sets[i]);
    }
    free(given);
}

const struct dev_blob_set *sim_given_of(const struct sim_given *given, uint64_t device_id)
{
    if (given == NULL || given->count == 0) {
        return NULL;
    }
    return given->sets[base_hash64(&device_id, sizeof(device_id)) % given->count];
}
