// The tunnel's transport of virtual devices: each stream is one request with an open body on the
// connection that carries the device's check-ins, so many devices' streams share a few sockets.
// Called by the tunnel and by the shard's connections, on the shard's thread.
#include "run/fleet_behaviour.h"
#include "run/fleet_enrol.h"

#include "base/hash.h"
#include "wire/digest.h"

static struct sim_active *active_of(const struct sim_exchange *exchange, uint32_t *out_stream)
{
    struct sim_awake *awake = exchange->owner;
    *out_stream = exchange->id;
    return awake->active;
}

// For the digest of a run in virtual time: what its streams said is part of the run.
static void note_bytes(const struct sim_active *active, const uint8_t *bytes, size_t size)
{
    struct sim_shard *shard = active->shard;
    if (shard->recorder.taking) {
        sim_shard_note(shard, active->awake->index, SIM_EVENT_STREAM, base_hash64(bytes, size));
    }
}

void sim_tunnel_head(struct sim_exchange *exchange, const struct dev_response_head *head,
                     uint64_t now_us)
{
    uint32_t stream;
    struct sim_active *active = active_of(exchange, &stream);
    active->status[stream] = head->status;
    active->retry_after_s[stream] = head->retry_after_s;
    if (head->status == DEV_TUNNEL_STATUS_OPEN) {
        dev_tunnel_on_open(active->tunnel, stream, now_us);
    }
}

void sim_tunnel_body(struct sim_exchange *exchange, const uint8_t *bytes, size_t size,
                     uint64_t now_us)
{
    uint32_t stream;
    struct sim_active *active = active_of(exchange, &stream);
    note_bytes(active, bytes, size);
    if (active->status[stream] == DEV_TUNNEL_STATUS_OPEN) { // of a refusal it is prose
        dev_tunnel_on_bytes(active->tunnel, stream, now_us, bytes, size);
    }
}

void sim_tunnel_writable(struct sim_exchange *exchange, uint64_t now_us)
{
    uint32_t stream;
    struct sim_active *active = active_of(exchange, &stream);
    dev_tunnel_on_writable(active->tunnel, stream, now_us);
}

void sim_tunnel_end(struct sim_exchange *exchange, enum base_status status, uint64_t now_us)
{
    uint32_t stream;
    struct sim_active *active = active_of(exchange, &stream);
    bool refused = active->status[stream] != DEV_TUNNEL_STATUS_OPEN;
    dev_tunnel_on_closed(active->tunnel, stream, now_us,
                         dev_tunnel_ending(active->status[stream], status),
                         refused ? active->retry_after_s[stream] : 0);
}

static enum base_status open_stream(void *ctx, uint32_t stream, uint8_t class_id)
{
    struct sim_active *active = ctx;
    struct sim_shard *shard = active->shard;
    const struct sim_transport *transport = &shard->transport;
    bool dead = active->past->kv->killed; // its process is gone, though nobody buried it yet
    if (stream >= WIRE_TUNNEL_CLASSES || active->streams[stream].open || dead) {
        return BASE_ERR_LIMIT;
    }
    char device[WIRE_DEVICE_HEX + 1];
    wire_device_hex(active->awake->id, device);
    active->status[stream] = 0;
    active->retry_after_s[stream] = 0;
    active->streams[stream] = (struct sim_exchange){
        .owner = active->awake,
        .device = active->awake->device,
        .index = active->awake->index,
        .id = stream,
        .started_us = sim_shard_now(shard),
        .kind = SIM_EXCHANGE_TUNNEL,
        .credential = sim_awake_credential(active->awake),
    };
    enum base_status status = transport->open(transport->ctx, &active->streams[stream],
                                              (struct base_str){device, WIRE_DEVICE_HEX}, class_id);
    sim_counters_request(&shard->ledger.counters, SIM_EXCHANGE_TUNNEL);
    shard->ledger.counters.request_errors += status != BASE_OK;
    active->streams[stream].open = status == BASE_OK;
    return status;
}

static enum base_status send_bytes(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                   bool early)
{
    struct sim_active *active = ctx;
    const struct sim_transport *transport = &active->shard->transport;
    (void)early; // the connection is there already
    note_bytes(active, bytes, size);
    return active->streams[stream].open && !active->past->kv->killed
               ? transport->write(transport->ctx, &active->streams[stream], bytes, size)
               : BASE_ERR_CLOSED;
}

static void close_stream(void *ctx, uint32_t stream)
{
    struct sim_active *active = ctx;
    const struct sim_transport *transport = &active->shard->transport;
    if (active->streams[stream].open) {
        active->streams[stream].open = false;
        transport->cancel(transport->ctx, &active->streams[stream]);
    }
}

struct dev_tunnel_transport sim_tunnel_port(struct sim_active *active)
{
    return (struct dev_tunnel_transport){
        .ctx = active, .open = open_stream, .send = send_bytes, .close = close_stream};
}

void sim_tunnel_close(struct sim_active *active)
{
    for (uint32_t stream = 0; stream < WIRE_TUNNEL_CLASSES; stream++) {
        close_stream(active, stream);
    }
}
