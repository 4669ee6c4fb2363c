// Records of the segment log as JSON, for operators. One who may wait: it reads files and, if need
// be, fetches a dictionary.
#ifndef GW_RECORD_TEXT_H
#define GW_RECORD_TEXT_H

#include "base/buffer.h"
#include "tunnel/gw_tunnel.h"

#define GW_RECORD_PAGE_MAX   1000u                // records of one page
#define GW_RECORD_PAGE_BYTES (2u * 1024 * 1024)   // of its text, but for the last record
#define GW_RECORD_SCAN_BYTES (UINT64_C(64) << 20) // of the log looked at for one page

// Where to go on: a position of the log and a record of the batch there. Its text is 16 hex digits,
// a dot, and the record's index.
struct gw_record_place {
    uint64_t position;
    uint32_t record;
};

#define GW_RECORD_PLACE_MAX 32

void gw_record_place_text(const struct gw_record_place *place, char out[GW_RECORD_PLACE_MAX]);
BASE_NODISCARD enum base_status gw_record_place_parse(struct base_str text,
                                                      struct gw_record_place *out);

struct gw_record_query {
    uint32_t tenant;
    bool from_start; // else from `place`
    struct gw_record_place place;
    uint64_t since_ms;    // when from_start: segments made before are passed over
    struct base_str task; // empty: all
    uint64_t device;      // 0: all
    uint32_t limit;       // records, at most GW_RECORD_PAGE_MAX
    // May the reader see this task? NULL: all.
    bool (*covers)(void *ctx, struct base_str task);
    void *ctx;
};

struct gw_record_page {
    uint32_t count;
    struct gw_record_place next; // go on there
    bool more;                   // there is more now
    bool skipped; // records before the first that is kept, or damaged ones, were passed over
};

// Appends objects, separated by commas, to `out`. NOT_FOUND: the place is none. IO, NOMEM.
BASE_NODISCARD enum base_status gw_record_read(struct gw_tunnel *tunnel,
                                               const struct gw_record_query *query,
                                               struct base_buffer *out,
                                               struct gw_record_page *out_page);

#endif
