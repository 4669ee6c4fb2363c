// What the store keeps of a class as bytes, with a check of its own: a store that gives back
// something else is seen.
//
//   state := u8 version (2), u32 epoch, 7 x u64, u64 lost[8] (version 1: 7), u64 check of the above
//
// Called by the other files of the tunnel, on the runtime's thread.
#include "tunnel/tunnel_state.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define STATE_VERSION 2
#define STATE_LOST_1  7 // reasons that version 1 knows
#define STATE_BYTES   (1 + 4 + 7 * 8 + TUNNEL_LOST * 8 + 8)
#define STATE_KEY     8

static void state_key(const struct tunnel_class *class, uint8_t out[STATE_KEY])
{
    memcpy(out, "tunnel/", STATE_KEY - 1);
    out[STATE_KEY - 1] = (uint8_t)('0' + class->id);
}

enum base_status tunnel_put_state(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                  uint64_t now_us, const struct tunnel_state *state, bool high)
{
    base_assert(state->base_slot <= state->tail && state->tail <= state->bound);
    base_assert(state->base_seq <= state->tail_seq);
    uint8_t value[STATE_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, value, sizeof(value));
    base_writer_u8(&writer, STATE_VERSION);
    base_writer_u32(&writer, state->epoch);
    base_writer_u64(&writer, state->base_slot);
    base_writer_u64(&writer, state->base_seq);
    base_writer_u64(&writer, state->tail);
    base_writer_u64(&writer, state->tail_seq);
    base_writer_u64(&writer, state->tail_hash);
    base_writer_u64(&writer, state->bound);
    base_writer_u64(&writer, state->durable);
    for (unsigned i = 0; i < TUNNEL_LOST; i++) {
        base_writer_u64(&writer, state->lost[i]);
    }
    base_writer_u64(&writer, base_hash64_seed(value, STATE_BYTES - 8, class->id));
    base_assert(writer.status == BASE_OK);
    uint8_t key[STATE_KEY];
    state_key(class, key);
    return dev_collect_put(tunnel->collect, now_us,
                           (struct dev_kv_key){DEV_SPACE_STATE, key, sizeof(key)},
                           (struct base_span){value, sizeof(value)}, high);
}

enum base_status tunnel_get_state(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                  struct tunnel_state *out)
{
    uint8_t key[STATE_KEY];
    uint8_t value[STATE_BYTES];
    size_t size = 0;
    state_key(class, key);
    enum base_status status =
        dev_collect_get(tunnel->collect, (struct dev_kv_key){DEV_SPACE_STATE, key, sizeof(key)},
                        value, sizeof(value), &size);
    if (status == BASE_ERR_TOO_LARGE) {
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(status);
    base_assert(size <= sizeof(value)); // as the storage port promises
    struct base_reader reader;
    base_reader_init(&reader, value, size);
    struct tunnel_state state = {0};
    uint8_t version = base_reader_u8(&reader);
    state.epoch = base_reader_u32(&reader);
    state.base_slot = base_reader_u64(&reader);
    state.base_seq = base_reader_u64(&reader);
    state.tail = base_reader_u64(&reader);
    state.tail_seq = base_reader_u64(&reader);
    state.tail_hash = base_reader_u64(&reader);
    state.bound = base_reader_u64(&reader);
    state.durable = base_reader_u64(&reader);
    for (unsigned i = 0; i < (version == 1 ? STATE_LOST_1 : TUNNEL_LOST); i++) {
        state.lost[i] = base_reader_u64(&reader);
    }
    uint64_t check = base_reader_u64(&reader);
    bool ok = base_reader_finish(&reader) == BASE_OK && version >= 1 && version <= STATE_VERSION &&
              check == base_hash64_seed(value, size - 8, class->id) &&
              state.base_slot <= state.tail && state.base_seq <= state.tail_seq &&
              state.tail <= state.bound;
    if (!ok) {
        return BASE_ERR_CORRUPT;
    }
    *out = state;
    return BASE_OK;
}
