// Dictionaries the gateway decompresses with. A worker never waits for one: what is not on the
// shelf is asked for, the keeper's thread fetches it, and meanwhile the device is told to send in
// full.
//
// SHARED: one mutex; what is on the shelf stays until the end.
#ifndef GW_DICT_SHELF_H
#define GW_DICT_SHELF_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define GW_DICTS_MAX      256u
#define GW_DICT_BYTES_MAX (256u * 1024)
#define GW_DICT_ASKED_MAX 16u // ids that wait to be fetched

struct gw_zstd_dict;
struct gw_dict_shelf;

struct gw_dict_port {
    void *ctx;
    // Bytes of a dictionary on the heap, to free(). NOT_FOUND; any other: tried again later. Called
    // on threads that may wait. NULL: there are none.
    enum base_status (*load)(void *ctx, uint32_t id, uint8_t **out_bytes, size_t *out_size);
};

BASE_NODISCARD enum base_status gw_dict_shelf_new(const struct gw_dict_port *port,
                                                  struct gw_dict_shelf **out);
void gw_dict_shelf_free(struct gw_dict_shelf *shelf); // accepts NULL
// NULL: not there. *out_asked: it was put on the list of what to fetch (wake the keeper).
const struct gw_zstd_dict *gw_dict_shelf_find(struct gw_dict_shelf *shelf, uint32_t id,
                                              bool *out_asked);
// Fetches what was asked for. A thread that may wait: the keeper, or who reads the log.
void gw_dict_shelf_fetch(struct gw_dict_shelf *shelf);

#endif
