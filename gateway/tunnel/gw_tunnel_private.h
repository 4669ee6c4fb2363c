// The tunnel as its own files and the sessions see it. Nobody else includes this.
//
// Locks, in the order they are taken: a shard of the marks, then a worker's inbox or the sink's
// queue. Nothing of the transport is called with a lock held.
#ifndef GW_TUNNEL_PRIVATE_H
#define GW_TUNNEL_PRIVATE_H

#include "tunnel/disk_guard.h"
#include "tunnel/device_rate.h"
#include "tunnel/gw_tunnel.h"
#include "tunnel/mark/marks.h"
#include "tunnel/thinning.h"
#include "tunnel/tunnel_partials.h"

#include <pthread.h>
#include <stdatomic.h>

struct gw_tunnel {
    struct gw_marks *marks;
    struct gw_segment_log *log;
    struct gw_sink_port sink;
    struct gw_tunnel_partials *partials;
    struct gw_uploads *uploads;
    struct gw_device_rates *rates;
    struct gw_dict_shelf *dicts;
    bool refuse_unknown;
    struct base_clock_port clock;
    const struct base_log *log_port;
    uint32_t credit_bytes;
    uint32_t rate;
    uint64_t memory_max;
    struct gw_thin thin;
    uint64_t retain_bytes;
    uint64_t unproven_max; // bytes a day of devices that did not show who they are
    _Atomic uint64_t unproven_day;
    _Atomic uint64_t unproven_bytes; // of that day
    struct gw_disk_guard disk;
    _Atomic uint64_t memory;
    _Atomic uint64_t failed;
    pthread_mutex_t workers_lock;
    struct gw_tunnel_worker *workers; // also those that are gone
    struct gw_keeper *keeper;
};

uint64_t gw_tunnel_now_us(const struct gw_tunnel *tunnel);
bool gw_tunnel_is_crowded(const struct gw_tunnel *tunnel);
// Is there room on the disk for so many bytes, and in the share of those that did not show who they
// are? Takes of the share.
bool gw_tunnel_has_room(struct gw_tunnel *tunnel, bool unproven, uint32_t bytes);

#endif
