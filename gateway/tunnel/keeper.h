// The keeper: a thread that writes a checkpoint when the log has grown by GW_KEEPER_SEGMENTS
// segments, lets old segments go, fetches dictionaries, and ends marks of devices that did not show
// who they are and were not heard of for `unproven_expire_s` (and at most half as long again).
#ifndef GW_KEEPER_H
#define GW_KEEPER_H

#include "tunnel/mark/checkpoint.h"
#include "tunnel/dict_shelf.h"
#include "tunnel/disk_guard.h"

#define GW_KEEPER_SEGMENTS 4u
#define GW_KEEPER_LOOK_US  UINT64_C(500000)
#define GW_KEEPER_SHARDS   64u // of the marks, in one look

struct gw_keeper;

struct gw_keeper_options {
    const char *dir;            // copied
    struct gw_segment_log *log; // NULL: only dictionaries
    struct gw_dict_shelf *dicts;
    struct gw_marks *marks;
    uint64_t retain_bytes;      // 0: all are kept
    struct gw_disk_guard *disk; // NULL: none
    uint64_t segment_bytes;
    uint64_t position; // of the newest checkpoint
    uint32_t unproven_expire_s;
    uint64_t look_us; // between two looks; 0 takes GW_KEEPER_LOOK_US
    struct base_clock_port clock;
    const struct base_log *log_port;
};

BASE_NODISCARD enum base_status gw_keeper_start(const struct gw_keeper_options *options,
                                                struct gw_keeper **out, struct base_error *error);
// Something is to be fetched. Any thread.
void gw_keeper_wake(struct gw_keeper *keeper);
// A last checkpoint, then the end. Accepts NULL.
void gw_keeper_stop(struct gw_keeper *keeper);

#endif
