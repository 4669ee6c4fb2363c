// The gateway's tunnel without sockets for tests: workers whose messages wait until the test pumps
// them, streams that keep what the gateway wrote, builders of a device's frames, and a sink that
// keeps batches in memory until the test lets them land.
#ifndef TUNNEL_RIG_H
#define TUNNEL_RIG_H

#include "tunnel/gw_tunnel.h"

#include <pthread.h>
#include <stdatomic.h>

#define RIG_WORKERS   2
#define RIG_FRAME_MAX (WIRE_TUNNEL_FRAME_MAX + WIRE_TUNNEL_HEAD)
#define RIG_OUT_MAX   (256 * 1024)

struct tunnel_rig_worker {
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct gw_message *first;
    struct gw_message **last;
    struct gw_tunnel_worker *worker;
};

// A sink in memory: batches wait in order until let go.
struct tunnel_rig_sink {
    pthread_mutex_t lock;
    struct gw_sink_batch *first;
    struct gw_sink_batch **last;
    uint32_t waiting;
    enum base_status refuse;                                    // submits answer this when not OK
    void (*keep)(void *ctx, const struct gw_sink_batch *batch); // before it lands durably
    void *ctx;
};

struct tunnel_rig {
    char dir[64]; // "": none yet
    _Atomic uint64_t mono_us;
    _Atomic uint64_t wall_us;
    struct gw_tunnel_options options; // may be changed before start
    struct gw_tunnel *tunnel;
    struct tunnel_rig_worker workers[RIG_WORKERS];
    struct tunnel_rig_sink sink;
};

void tunnel_rig_init(struct tunnel_rig *rig);
// With the segment log in rig->dir, or with the sink in memory.
void tunnel_rig_start(struct tunnel_rig *rig, bool on_disk);
void tunnel_rig_stop(struct tunnel_rig *rig); // the folder stays
void tunnel_rig_done(struct tunnel_rig *rig); // stops, removes the folder
// Runs posted messages; false: there were none.
bool tunnel_rig_pump(struct tunnel_rig *rig, uint32_t worker);
// Waits for a message (of the log's writer) and runs it.
void tunnel_rig_wait(struct tunnel_rig *rig, uint32_t worker);
// Lets `count` waiting batches land with `status`, and pumps. Returns how many there were.
uint32_t tunnel_rig_land(struct tunnel_rig *rig, uint32_t count, enum base_status status);

// ---- The transport's end of a stream

struct tunnel_rig_stream {
    struct tunnel_rig *rig;
    uint32_t worker;
    struct gw_session *session;
    uint8_t out[RIG_OUT_MAX]; // what the gateway wrote and was not read yet
    size_t out_size;
    size_t out_limit; // `write` refuses beyond; 0: RIG_OUT_MAX
    bool unproven;    // its device did not show who it is; set before opening
    bool ended;
    bool reset;
    enum base_status status; // last of gw_session_receive
};

void tunnel_rig_open(struct tunnel_rig *rig, struct tunnel_rig_stream *stream, uint32_t worker,
                     uint64_t device);
void tunnel_rig_close(struct tunnel_rig_stream *stream); // accepts a closed one
void tunnel_rig_send(struct tunnel_rig_stream *stream, const uint8_t *bytes, size_t size);
// The next frame the gateway wrote. False: none. `out_payload` lives until the next call.
bool tunnel_rig_next(struct tunnel_rig_stream *stream, enum wire_tunnel_type *out_type,
                     const uint8_t **out_payload, size_t *out_size);

// ---- A device's frames

// What a device knows of one class: an honest chain.
struct tunnel_rig_device {
    uint64_t device;
    uint8_t class_id;
    uint32_t epoch;
    uint64_t next;
    uint64_t next_seq;
    uint64_t next_hash;
    uint64_t tail;
    uint64_t tail_hash;
    bool older; // it speaks version 1
};

void tunnel_rig_device(struct tunnel_rig_device *device, uint64_t id, uint8_t class_id,
                       uint32_t epoch);
size_t tunnel_rig_hello(const struct tunnel_rig_device *device, uint8_t *out);
// A payload of `records` JSON records of `body_bytes`, marked with `mark`. Returns its size.
size_t tunnel_rig_payload(uint32_t records, size_t body_bytes, uint64_t mark, uint8_t *out,
                          size_t capacity);
// The BATCH frame (and the CHUNKs) of the device's next batch, plain; goes on in the chain.
size_t tunnel_rig_batch(struct tunnel_rig_device *device, const uint8_t *payload, size_t size,
                        uint32_t records, uint8_t *out, size_t capacity);
size_t tunnel_rig_loss(struct tunnel_rig_device *device, uint32_t numbers, uint32_t count,
                       uint8_t reason, uint8_t *out);
// HELLO, and the WELCOME that came; fails the test when none did.
void tunnel_rig_greet(struct tunnel_rig_stream *stream, const struct tunnel_rig_device *device,
                      struct wire_tunnel_welcome_class *out);
// A small batch of the device's, marked with its number and `salt`.
void tunnel_rig_send_batch(struct tunnel_rig_stream *stream, struct tunnel_rig_device *device,
                           uint64_t salt);

#endif
