// Judging batches against marks. Pure but for memory: called by sessions (workers), by the sink's
// thread when batches come back, and at start while the log is read; the shard's mutex is held
// always.
#include "tunnel/mark/mark_lane.h"

#include "base/check.h"
#include "wire/tunnel_frame.h"

#include <stdlib.h>

static struct gw_lane **bucket_of(struct gw_mark_shard *shard, uint64_t device, uint32_t epoch)
{
    uint64_t hash = base_keyed64_pair(&shard->key, device, epoch);
    return &shard->lanes[hash % GW_MARK_LANE_BUCKETS];
}

struct gw_mark gw_lane_mark(struct gw_mark_shard *shard, const struct gw_lane *lane)
{
    const struct gw_mark *mark = gw_mark_find(shard, lane->device, lane->class_id, lane->epoch);
    if (mark != NULL) {
        return *mark;
    }
    return (struct gw_mark){.epoch = lane->epoch,
                            .hash =
                                wire_tunnel_chain_first(lane->device, lane->class_id, lane->epoch)};
}

static void rewind_lane(struct gw_mark_shard *shard, struct gw_lane *lane)
{
    const struct gw_mark mark = gw_lane_mark(shard, lane);
    lane->next = mark.high_water;
    lane->next_hash = mark.hash;
    lane->broken = false;
}

static struct gw_lane *find(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                            uint32_t epoch)
{
    struct gw_lane *lane = *bucket_of(shard, device, epoch);
    while (lane != NULL &&
           (lane->device != device || lane->class_id != class_id || lane->epoch != epoch)) {
        lane = lane->next_in_bucket;
    }
    return lane;
}

bool gw_lane_is_there(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                      uint32_t epoch)
{
    return find(shard, device, class_id, epoch) != NULL;
}

struct gw_lane *gw_lane_get(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                            uint32_t epoch)
{
    struct gw_lane **bucket = bucket_of(shard, device, epoch);
    struct gw_lane *lane = find(shard, device, class_id, epoch);
    if (lane == NULL && (lane = calloc(1, sizeof(*lane))) != NULL) {
        lane->device = device;
        lane->class_id = class_id;
        lane->epoch = epoch;
        lane->next_in_bucket = *bucket;
        *bucket = lane;
        rewind_lane(shard, lane);
    }
    return lane;
}

void gw_lane_release(struct gw_mark_shard *shard, struct gw_lane *lane)
{
    if (lane->under_way > 0 || lane->users > 0) {
        return;
    }
    struct gw_lane **at = bucket_of(shard, lane->device, lane->epoch);
    while (*at != lane) {
        at = &(*at)->next_in_bucket;
    }
    *at = lane->next_in_bucket;
    free(lane);
}

void gw_lanes_free(struct gw_mark_shard *shard)
{
    for (uint32_t i = 0; i < GW_MARK_LANE_BUCKETS; i++) {
        while (shard->lanes[i] != NULL) {
            struct gw_lane *lane = shard->lanes[i];
            shard->lanes[i] = lane->next_in_bucket;
            free(lane);
        }
    }
}

enum gw_verdict gw_lane_judge(const struct gw_lane *lane, const struct gw_batch_id *id)
{
    if (id->number < lane->next) {
        return GW_VERDICT_KNOWN;
    }
    if (id->number > lane->next || lane->broken) {
        return GW_VERDICT_GAP;
    }
    return id->prev_hash == lane->next_hash ? GW_VERDICT_NEW : GW_VERDICT_FORK;
}

enum base_status gw_lane_prepare(struct gw_mark_shard *shard, const struct gw_lane *lane,
                                 bool unproven)
{
    return gw_mark_use(shard, lane->device, lane->class_id, lane->epoch, unproven);
}

void gw_lane_take(struct gw_lane *lane, const struct gw_batch_id *id)
{
    base_check(!lane->broken && id->number == lane->next);
    lane->next += id->numbers;
    lane->next_hash = id->hash;
    lane->under_way++;
}

void gw_lane_landed(struct gw_mark_shard *shard, struct gw_lane *lane, const struct gw_batch_id *id,
                    uint32_t tenant, bool is_durable)
{
    base_check(lane->under_way > 0);
    lane->under_way--;
    if (is_durable) {
        struct gw_mark *mark = gw_mark_find(shard, lane->device, lane->class_id, lane->epoch);
        base_check(mark != NULL);
        base_check(mark->high_water == id->number);
        mark->high_water += id->numbers;
        mark->hash = id->hash;
        mark->tenant = tenant & GW_MARK_TENANT_MAX;
    } else {
        lane->broken = true;
    }
    if (lane->broken && lane->under_way == 0) {
        rewind_lane(shard, lane);
    }
}

enum base_status gw_mark_replay(struct gw_mark_shard *shard, const struct gw_mark_key *key,
                                uint32_t tenant, const struct gw_batch_id *id, uint64_t *out_gap)
{
    struct gw_mark *mark;
    *out_gap = 0;
    BASE_TRY(gw_mark_make(shard, key->device, key->class_id, key->epoch, &mark));
    if (id->number < mark->high_water) {
        return BASE_OK;
    }
    // What came between is gone (old segments, no checkpoint), but was acknowledged.
    *out_gap = id->number - mark->high_water;
    mark->high_water = id->number + id->numbers;
    mark->hash = id->hash;
    mark->tenant = tenant & GW_MARK_TENANT_MAX;
    return BASE_OK;
}

bool gw_lanes_validate(struct gw_mark_shard *shard)
{
    for (uint32_t i = 0; i < GW_MARK_LANE_BUCKETS; i++) {
        for (const struct gw_lane *lane = shard->lanes[i]; lane != NULL;
             lane = lane->next_in_bucket) {
            const struct gw_mark mark = gw_lane_mark(shard, lane);
            bool idle_fits = lane->next == mark.high_water && lane->next_hash == mark.hash;
            if (lane->class_id >= WIRE_TUNNEL_CLASSES || lane->next < mark.high_water ||
                (lane->under_way == 0 && !idle_fits) ||
                (lane->under_way == 0 && lane->users == 0)) {
                return false;
            }
        }
    }
    return true;
}
