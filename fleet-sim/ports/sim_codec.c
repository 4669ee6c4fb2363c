// Codecs of a shard, by the dictionaries they have. Called when a device's active versions change,
// and by its tunnel. fleet_pipeline.c takes the codec that fits a device and hands its tunnel the
// port, fleet_behaviour.c gives it back at the end of a session. At most SIM_CODECS_MAX sets are
// kept: a new one takes the place of a set without users that was taken longest ago. Item 0 has no
// dictionary and is what a device gets when there is no room.
#include "ports/sim_codec.h"

#include "zstd/codec_zstd.h"

#include <string.h>

enum base_status sim_codecs_init(struct sim_codecs *codecs)
{
    *codecs = (struct sim_codecs){.count = 1};
    return dev_codec_new(0, &codecs->items[0].codec);
}

void sim_codecs_done(struct sim_codecs *codecs)
{
    for (uint32_t i = 0; i < codecs->count; i++) {
        dev_codec_free(codecs->items[i].codec);
    }
    *codecs = (struct sim_codecs){.count = 0};
}

static struct sim_codec *find(struct sim_codecs *codecs, const struct wire_sha256 *names,
                              uint32_t count)
{
    for (uint32_t i = 0; i < codecs->count; i++) {
        struct sim_codec *codec = &codecs->items[i];
        bool same = codec->count == count;
        for (uint32_t k = 0; same && k < count; k++) {
            same = wire_sha256_equal(&codec->names[k], &names[k]);
        }
        if (same) {
            return codec;
        }
    }
    return NULL;
}

// A place for a new set: a free one, or that of the set nobody has had for the longest time.
static struct sim_codec *place(struct sim_codecs *codecs)
{
    struct sim_codec *oldest = NULL;
    if (codecs->count < SIM_CODECS_MAX) {
        return &codecs->items[codecs->count++];
    }
    for (uint32_t i = 1; i < codecs->count; i++) {
        struct sim_codec *codec = &codecs->items[i];
        if (codec->users == 0 && (oldest == NULL || codec->used < oldest->used)) {
            oldest = codec;
        }
    }
    if (oldest != NULL) {
        dev_codec_free(oldest->codec);
    }
    return oldest;
}

// NULL: no memory.
static struct dev_codec *fill(struct sim_store *store, const struct wire_sha256 *names,
                              uint32_t count)
{
    struct dev_codec *codec = NULL;
    enum base_status status = dev_codec_new(0, &codec);
    for (uint32_t i = 0; status != BASE_ERR_NOMEM && i < count; i++) {
        const struct sim_blob *blob = sim_store_find(store, &names[i]);
        if (blob != NULL) {
            status = dev_codec_dict_add(codec, &names[i], blob->bytes, blob->size);
        }
    }
    if (status == BASE_ERR_NOMEM) {
        dev_codec_free(codec);
        return NULL;
    }
    return codec;
}

// NULL: there is no room.
static struct sim_codec *make(struct sim_codecs *codecs, struct sim_store *store,
                              const struct wire_sha256 *names, uint32_t count)
{
    struct dev_codec *fresh = fill(store, names, count);
    struct sim_codec *codec = fresh != NULL ? place(codecs) : NULL;
    if (codec == NULL) {
        dev_codec_free(fresh);
        return NULL;
    }
    *codec = (struct sim_codec){.count = count, .codec = fresh};
    memcpy(codec->names, names, sizeof(*names) * count);
    return codec;
}

struct sim_codec *sim_codecs_take(struct sim_codecs *codecs, struct sim_store *store,
                                  const struct wire_sha256 *names, uint32_t count)
{
    count = count < WIRE_TUNNEL_DICTS_MAX ? count : WIRE_TUNNEL_DICTS_MAX;
    struct sim_codec *codec = find(codecs, names, count);
    if (codec == NULL) {
        codec = make(codecs, store, names, count);
    }
    if (codec == NULL) {
        codec = &codecs->items[0];
    }
    codec->users++;
    codec->used = ++codecs->takes;
    return codec;
}

void sim_codecs_give(struct sim_codec *codec)
{
    if (codec != NULL) {
        codec->users--;
    }
}

static enum base_status compress(void *ctx, const struct dev_tunnel_compression *what,
                                 size_t *out_size)
{
    const struct dev_tunnel_codec port = dev_codec_port((*(struct sim_codec **)ctx)->codec);
    return port.compress(port.ctx, what, out_size);
}

static uint32_t dicts(void *ctx, uint32_t out[WIRE_TUNNEL_DICTS_MAX])
{
    const struct dev_tunnel_codec port = dev_codec_port((*(struct sim_codec **)ctx)->codec);
    return port.dicts(port.ctx, out);
}

struct dev_tunnel_codec sim_codec_port(struct sim_codec **at)
{
    return (struct dev_tunnel_codec){.ctx = (void *)at, .compress = compress, .dicts = dicts};
}
