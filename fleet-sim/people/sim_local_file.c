// A bounded reader of files from disk: links, pipes and devices are refused, and so is what is
// longer than it may be. fleet_local.c and fleet_exclusive.c read a built version through it,
// evidence_file.c the manifest it names, people/ and command/ what people wrote. Coordinator's
// thread.
#include "people/sim_local_file.h"

#include "base/alloc.h"
#include "base/os/regular_file.h"

#include <stdio.h>

enum base_status sim_local_read(const char *path, size_t limit, struct base_buffer *out,
                                struct base_error *error)
{
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error));
    base_buffer_init(out, base_alloc_heap(), limit);
    uint8_t chunk[16384];
    enum base_status status = BASE_OK;
    size_t size;
    while (status == BASE_OK && (size = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        status = base_buffer_add(out, chunk, size);
    }
    if (status == BASE_OK && ferror(file) != 0) {
        status = BASE_ERR_IO;
    }
    (void)fclose(file);
    if (status != BASE_OK) {
        base_buffer_done(out);
        return base_error_set(error, status, "%s: %s", path, base_status_text(status));
    }
    return BASE_OK;
}
