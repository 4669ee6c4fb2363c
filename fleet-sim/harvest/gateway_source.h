// A gateway that is asked about its devices: one that runs, over a connection, or the data folder
// of one that does not, through its core in this process.
#ifndef SIM_GATEWAY_SOURCE_H
#define SIM_GATEWAY_SOURCE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_SOURCE_WAIT_MS 30000 // for an answer

struct sim_source;

// What opening the folder gives: BUSY, NOT_FOUND, IO, ...
BASE_NODISCARD enum base_status sim_source_folder(const char *dir, struct sim_source **out_source,
                                                  struct base_error *error);
struct sim_source_place {
    const char *host;
    uint16_t port;
    bool tls;
    struct base_str token; // empty: none
};
// NOMEM, IO.
BASE_NODISCARD enum base_status sim_source_url(const struct sim_source_place *place,
                                               struct sim_source **out_source,
                                               struct base_error *error);
// GET. The status of the answer, whose body replaces what is in `out`; 0: there was none.
int sim_source_ask(struct sim_source *source, const char *path, struct base_buffer *out);
void sim_source_free(struct sim_source *source); // accepts NULL

#endif
