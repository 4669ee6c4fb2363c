// Streams of the tunnel from a peer that sends anything: no crash, no leak, every bound holds, and
// the marks stay in order.
//
// Input: steps of u8 what and what it needs. Bytes may be sent as they stand; a chain of batches
// whose payloads come from the input gets past the hashes to what lies behind them.
#include "fuzz_target.h"

#include "tunnel_rig.h"

#include "tunnel/tunnel_partials.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/prng.h"

#include <stdlib.h>
#include <string.h>

#define INPUTS_PER_RIG 2000u

static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static struct tunnel_rig_device device;
static uint64_t inputs;

static void open_stream(uint32_t worker)
{
    tunnel_rig_open(&rig, &stream, worker % RIG_WORKERS, device.device);
}

static void send_bytes(const uint8_t *bytes, size_t size)
{
    if (stream.session == NULL) {
        open_stream(0);
    }
    tunnel_rig_send(&stream, bytes, size);
    stream.out_size = 0;
    if (stream.status != BASE_OK || stream.ended) { // as the transport does
        tunnel_rig_close(&stream);
    }
}

static void send_raw(struct base_reader *reader)
{
    size_t wanted = base_reader_u16(reader);
    size_t size = wanted < base_reader_left(reader) ? wanted : base_reader_left(reader);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (bytes != NULL) {
        send_bytes(bytes, size);
    }
}

static void send_hello(struct base_reader *reader)
{
    uint8_t frame[512];
    uint8_t how = base_reader_u8(reader);
    struct tunnel_rig_device say = device;
    say.tail = (how & 1) != 0 ? device.next : 0;
    say.tail_hash = (how & 1) != 0
                        ? device.next_hash
                        : wire_tunnel_chain_first(device.device, device.class_id, device.epoch);
    say.tail_hash ^= (how & 2) != 0 ? 1u : 0u;
    say.next += (how & 4) != 0 ? 1u : 0u;
    say.older = (how & 8) != 0;
    send_bytes(frame, tunnel_rig_hello(&say, frame));
}

// A batch whose payload is the input's, or well-formed with records of the input's size.
static void send_batch(struct base_reader *reader, bool well_formed)
{
    static uint8_t payload[128 * 1024];
    static uint8_t frame[160 * 1024];
    size_t size = 1u + base_reader_u16(reader);
    uint32_t count = 1;
    if (well_formed) {
        count = 1 + (uint32_t)(size % 5);
        size_t body = 24 + (size > 65000 ? 20000 : size % 300);
        size = tunnel_rig_payload(count, body, inputs, payload, sizeof(payload));
    } else {
        const uint8_t *bytes = base_reader_bytes(reader, size);
        if (bytes == NULL) {
            return;
        }
        memcpy(payload, bytes, size);
    }
    struct tunnel_rig_device before = device;
    size_t wrote = tunnel_rig_batch(&device, payload, size, count, frame, sizeof(frame));
    size_t cut = base_reader_u8(reader);
    send_bytes(frame, cut < 8 && wrote > cut ? wrote - cut : wrote);
    if (!well_formed) {
        device = before; // it may have been refused
    }
}

static void send_loss(struct base_reader *reader)
{
    uint8_t frame[512];
    uint32_t numbers = 1u + base_reader_u8(reader);
    send_bytes(frame, tunnel_rig_loss(&device, numbers, 1u + base_reader_u8(reader),
                                      WIRE_TUNNEL_LOSS_QUOTA, frame));
}

static void step(struct base_reader *reader)
{
    switch (base_reader_u8(reader) % 9) {
    case 0:
        send_raw(reader);
        break;
    case 1:
        send_hello(reader);
        break;
    case 2:
        send_batch(reader, false);
        break;
    case 3:
        send_batch(reader, true);
        break;
    case 4:
        send_loss(reader);
        break;
    case 5:
        (void)tunnel_rig_land(&rig, 1u + base_reader_u8(reader) % 4, BASE_OK);
        break;
    case 6:
        (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_ERR_FULL);
        break;
    case 7:
        tunnel_rig_close(&stream);
        break;
    default:
        tunnel_rig_close(&stream);
        open_stream(base_reader_u8(reader));
        break;
    }
    if (stream.session != NULL && stream.ended) {
        tunnel_rig_close(&stream);
    }
    stream.out_size = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (inputs++ % INPUTS_PER_RIG == 0) {
        if (inputs > 1) {
            tunnel_rig_done(&rig);
        }
        tunnel_rig_init(&rig);
        rig.options.memory_bytes = 1024 * 1024;
        tunnel_rig_start(&rig, false);
    }
    tunnel_rig_device(&device, base_mix64(inputs), (uint8_t)(size % 4), 1);
    struct base_reader reader;
    base_reader_init(&reader, data, size);
    while (reader.status == BASE_OK && base_reader_left(&reader) > 0) {
        step(&reader);
    }
    tunnel_rig_close(&stream);
    (void)tunnel_rig_land(&rig, UINT32_MAX, BASE_OK);
    struct gw_tunnel_stats stats;
    if (inputs % 64 == 0) {
        gw_tunnel_stats(rig.tunnel, &stats);
        // What is left are interrupted batches on their shelf.
        if (stats.sessions != 0 || stats.memory_bytes > GW_PARTIALS_BYTES + 65536 ||
            !gw_tunnel_validate(rig.tunnel)) {
            abort();
        }
    }
    return 0;
}
