// A body that is being gathered: in memory while it is small, then in a file without a name, which
// is mapped when it is whole. One owner, one thread.
#ifndef GW_BODY_SPOOL_H
#define GW_BODY_SPOOL_H

#include "base/buffer.h"

#include <stdbool.h>

#define GW_SPOOL_MEMORY_MAX (256u * 1024) // then it goes on in a file

struct gw_body_spool {
    struct base_buffer memory; // empty once there is a file
    uint64_t bytes;
    bool stays; // in memory, whatever its size; its owner counts that
    int fd;     // -1: none
    void *map;
};

void gw_body_spool_init(struct gw_body_spool *spool);
void gw_body_spool_done(struct gw_body_spool *spool); // the file is gone with it
// Would so many bytes more be in a file? Not when it stays.
bool gw_body_spool_spills(const struct gw_body_spool *spool, uint64_t more);
// Adds behind what is there; `dir` is where a file is made (NULL: everything stays in memory).
// NOMEM, FULL (no room on the disk), IO, LIMIT (no descriptor). After a failure only _done.
BASE_NODISCARD enum base_status gw_body_spool_add(struct gw_body_spool *spool, const char *dir,
                                                  const void *bytes, size_t size);
// All of it, valid until _done. NOMEM.
BASE_NODISCARD enum base_status gw_body_spool_bytes(struct gw_body_spool *spool,
                                                    const uint8_t **out_bytes);

#endif
